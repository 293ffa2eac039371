/* The nearest rows of a database, by a search that keeps only candidates for the results. Does not need the GIL. */
#ifndef INGOT_TOP_K_H
#define INGOT_TOP_K_H

#include <stdbool.h>
#include <stdint.h>

#include "search/candidates.h"
#include "search/distances.h"

/* The data to search: contiguous vectors of length `d`. */
typedef struct {
    ingot_metric metric;
    const float *queries, *rows;
    int64_t query_count, row_count, d;
} ingot_search;

/* Writes the distances and positions of the `k` nearest rows of each query, nearest first, ties in row order, padded
 * with infinity (minus infinity where larger is nearer) and -1. False if memory is short. */
bool ingot_nearest(const ingot_search *search, int64_t k, float *distances, int64_t *positions);

/* Finds all rows within `radius` of each query, in row order. `found` gets one block of memory per query, to be
 * released with `free`, and `counts` the number of rows in it. False if memory is short; `found` must be freed then,
 * too. */
bool ingot_within(const ingot_search *search, float radius, ingot_candidate **found, int64_t *counts);

#endif
