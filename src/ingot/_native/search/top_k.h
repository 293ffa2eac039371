/* The nearest rows of a database: a search that keeps only what may be among the results. The GIL
 * is not needed. */
#ifndef INGOT_TOP_K_H
#define INGOT_TOP_K_H

#include <stdbool.h>
#include <stdint.h>

#include "search/candidates.h"
#include "search/distances.h"

/* What is searched: vectors of length `d`, one behind the other. */
typedef struct {
    ingot_metric metric;
    const float *queries, *rows;
    int64_t query_count, row_count, d;
} ingot_search;

/* Writes distances and positions of the `k` nearest rows of each query, nearest first, equal ones in the order of rows;
 * behind them infinity (minus infinity where large values are near) and -1. False if memory is short. */
bool ingot_nearest(const ingot_search *search, int64_t k, float *distances, int64_t *positions);

/* All rows nearer than `radius` of each query, in the order of rows. `found` gets a block of memory for each query, to be
 * freed with `free`, and `counts` how many are in it. False if memory is short; `found` is to be freed then, too. */
bool ingot_within(const ingot_search *search, float radius, ingot_candidate **found, int64_t *counts);

#endif
