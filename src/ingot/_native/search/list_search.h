/* The nearest coded vectors in inverted lists. Does not need the GIL. */
#ifndef INGOT_LIST_SEARCH_H
#define INGOT_LIST_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

#include "search/coded_keys.h"

typedef struct {
    ingot_codes codes;
    const float *queries; /* (query_count, d) */
    int64_t query_count;
    const int64_t *probes; /* (query_count, probe_count): the lists to search; negative entries are skipped */
    int64_t probe_count;
    const char *rows;      /* the codes of all lists */
    const int64_t *limits; /* (list_count + 1): list i has the rows limits[i] to limits[i + 1] - 1 */
    int64_t list_count;
    const float *centroids; /* (list_count, d) if codes other than float32 are of residuals to them, else NULL */
} ingot_list_search;

/* Writes the distances and rows of the `k` nearest codes of each query, nearest first, ties in the order of probes
 * and rows, padded with infinity (minus infinity for inner products) and -1. False if memory is short. */
bool ingot_nearest_in_lists(const ingot_list_search *search, int64_t k, float *distances, int64_t *positions);

#endif
