/* Distances between vectors of float32, and which of many are small enough: the loops of a search, for the vector
 * instructions of the machine it runs on. Without Python. */
#ifndef INGOT_DISTANCES_H
#define INGOT_DISTANCES_H

#include <stdint.h>

typedef enum { METRIC_L2, METRIC_L1, METRIC_LINF, METRIC_INNER_PRODUCT, METRIC_COSINE } ingot_metric;

/* Writes how far each of `row_count` rows is from each of `query_count` queries, all of length `d` and one behind the
 * other: keys[query * key_stride + row]. Small keys are near: for inner products and cosines they are negative. The
 * key of a pair does not depend on which other pairs are computed with it. */
void ingot_keys(ingot_metric metric, const float *queries, int64_t query_count, const float *rows, int64_t row_count, int64_t d,
                float *keys, int64_t key_stride);

/* The sum of squares of each row. */
void ingot_squares(const float *rows, int64_t row_count, int64_t d, float *squares);

/* The places at which value[i] * factor[i] + term[i] is not more than `limit` (NaN is not); how many those are. No
 * factors (NULL) are 1, no terms 0. */
int64_t ingot_not_more(const float *values, const float *factors, const float *terms, int64_t count, float limit,
                       int32_t *places);

#endif
