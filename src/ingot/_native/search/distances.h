/* Distances between float32 vectors, and a filter for the small ones: the inner loops of a search, with a version
 * per instruction set. Does not use Python. */
#ifndef INGOT_DISTANCES_H
#define INGOT_DISTANCES_H

#include <stdint.h>

typedef enum { METRIC_L2, METRIC_L1, METRIC_LINF, METRIC_INNER_PRODUCT, METRIC_COSINE } ingot_metric;

/* Writes the distance between each of `query_count` queries and each of `row_count` rows to keys[query * key_stride
 * + row]. Queries and rows are contiguous and of length `d`. Smaller keys are nearer: those of inner products and
 * cosines are negated. The key of a pair does not depend on which other pairs are computed with it. */
void ingot_keys(ingot_metric metric, const float *queries, int64_t query_count, const float *rows, int64_t row_count, int64_t d,
                float *keys, int64_t key_stride);

/* The sum of squares of each row. */
void ingot_squares(const float *rows, int64_t row_count, int64_t d, float *squares);

/* Collects the indices i at which value[i] * factor[i] + term[i] is not greater than `limit` (so NaN is included),
 * and returns how many there are. NULL factors are 1, NULL terms are 0. */
int64_t ingot_not_more(const float *values, const float *factors, const float *terms, int64_t count, float limit,
                       int32_t *indices);

#endif
