/* Scatters: rows of updates combined into the rows of a table that indices name.
 *
 * Threads have ranges of the table's rows, so that no two write to the same: each copies its rows, goes through all indices and
 * takes the updates of its own, in their order. Results depend on no number of threads. */
#ifndef INGOT_SCATTER_H
#define INGOT_SCATTER_H

#include <stdint.h>

typedef enum { SCATTER_ASSIGN, SCATTER_ADD, SCATTER_MULTIPLY, SCATTER_MAXIMUM, SCATTER_MINIMUM } ingot_scatter_mode;

typedef struct {
    ingot_scatter_mode mode;
    int dtype; /* no half type, and no complex one */
    int64_t itemsize;
    int64_t row_count, width, update_count;
    char *out;        /* (row_count, width), contiguous */
    const char *base; /* what `out` is before; NULL if that is there already */
    int64_t base_strides[2];
    const int64_t *rows; /* of each update, all of them within the table */
    const char *updates;
    int64_t update_stride; /* elements of an update are contiguous */
} ingot_scatter;

void ingot_scatter_rows(const ingot_scatter *scatter);

#endif
