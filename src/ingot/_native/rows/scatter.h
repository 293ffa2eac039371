/* Scatters: combine rows of updates into the rows of a table that the indices select.
 *
 * Each thread owns a range of table rows, so that no two threads write the same row: it copies its rows, scans all
 * indices and applies the updates to its own rows in order. If many updates are combined into a small table, they are
 * split into parts, each of which is combined into a table of its own, and these are combined in order. Sorted rows need
 * neither: the updates of a range follow one another. Results do not depend on the number of threads. */
#ifndef INGOT_SCATTER_H
#define INGOT_SCATTER_H

#include <stdbool.h>
#include <stdint.h>

typedef enum { SCATTER_ASSIGN, SCATTER_ADD, SCATTER_MULTIPLY, SCATTER_MAXIMUM, SCATTER_MINIMUM } ingot_scatter_mode;

typedef struct {
    ingot_scatter_mode mode;
    int dtype; /* neither half-precision nor complex */
    int64_t itemsize;
    int64_t row_count, width, update_count;
    char *out;        /* (row_count, width), contiguous */
    const char *base; /* initial contents of `out`; NULL if they are already there */
    int64_t base_strides[2];
    const int64_t *rows; /* target row of each update; all are within the table */
    const char *updates;
    int64_t update_stride; /* between updates; the elements of one are contiguous */
} ingot_scatter;

/* False if there is no memory. */
bool ingot_scatter_rows(const ingot_scatter *scatter);

#endif
