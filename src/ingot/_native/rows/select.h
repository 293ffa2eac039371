/* Selection: which elements of a row are before the one of a given rank, without sorting them.
 *
 * Keys (keys.h) of a sample tell about where that element is; all keys are compared with two limits, in vectors, and those
 * between them are few. The element is found among these, and one more pass gives the positions. */
#ifndef INGOT_SELECT_H
#define INGOT_SELECT_H

#include <stdbool.h>
#include <stdint.h>

/* Rows of a 3-d array along its middle axis; strides are in bytes. */
typedef struct {
    char *data;
    int64_t strides[3];
} ingot_rows;

typedef struct {
    int dtype;
    int64_t before, length, behind; /* lengths of the axes of elements */
    ingot_rows elements, results;
    int64_t kth;
    int64_t begin, end; /* which indices of the rearranged rows are wanted */
    bool positions;     /* whether results are positions (uint32), or elements */
} ingot_selection;

/* False if there is no memory, or a signal's handler raised. */
bool ingot_select(const ingot_selection *selection);

#endif
