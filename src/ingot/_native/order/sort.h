/* Radix sort of rows: stable, by the bytes of order-preserving keys (keys.h), the lowest first. A pass counts the
 * values of a byte and moves each item behind those with smaller ones; passes in which all have the same value are
 * skipped. Long rows are divided into chunks, which threads count and move. */
#ifndef INGOT_SORT_H
#define INGOT_SORT_H

#include <stdbool.h>
#include <stdint.h>

#include "rows/rows.h"

typedef struct {
    int dtype;
    int64_t before, length, behind; /* lengths of the axes of `elements` */
    ingot_rows elements, results;
    bool positions; /* whether results are positions (uint32) or elements */
} ingot_sorting;

/* False if memory is short or a signal handler raised. */
bool ingot_sort_rows(const ingot_sorting *sorting);

#endif
