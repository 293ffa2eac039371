/* Selection: finds which elements of a row come before the one of a given rank, without sorting.
 *
 * A sample of the keys (keys.h) gives a bracket that probably contains that element. One vectorised pass compares
 * all keys with the bracket, and the few keys inside it are searched for the element. One more pass yields the
 * positions. */
#ifndef INGOT_SELECT_H
#define INGOT_SELECT_H

#include <stdbool.h>
#include <stdint.h>

#include "rows/rows.h"

typedef struct {
    int dtype;
    int64_t before, length, behind; /* lengths of the axes of `elements` */
    ingot_rows elements, results;
    int64_t kth;
    int64_t begin, end; /* range of indices of the partitioned rows to return */
    bool positions;     /* whether results are positions (uint32) or elements */
} ingot_selection;

/* False if memory is short or a signal handler raised. */
bool ingot_select(const ingot_selection *selection);

#endif
