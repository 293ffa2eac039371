/* Distances between float32 vectors, 16 components at a time.
 *
 * Written with the compiler's vector types. Each function has several versions, of which the dynamic linker picks
 * the best that the machine supports. */
#include "search/distances.h"

#include <math.h>
#include <string.h>

#include "search/vectors.h"

/* Loads the first `count` of 16 numbers, padded with zeros. Reads past them, but not past `end`. */
INLINE void load_some(Lanes *to, const float *from, int64_t count, const Bits *first, const float *end) {
    if (end - from >= LANES) {
        load(to, from);
        *to = (Lanes)((Bits)*to & *first);
        return;
    }
    *to = (Lanes){0};
    for (int64_t i = 0; i < count; i++)
        (*to)[i] = from[i];
}

/* Sets all bits of the first `count` lanes. */
INLINE void ones_for(Bits *ones, int64_t count) {
    for (int i = 0; i < LANES; i++)
        (*ones)[i] = i < count ? -1 : 0;
}

typedef int32_t HalfBits __attribute__((vector_size(32)));
typedef int32_t QuarterBits __attribute__((vector_size(16)));

/* The largest of nonnegative numbers. Their bit patterns are ordered like the numbers, with NaN the largest. */
INLINE float largest(const Lanes *lanes) {
    HalfBits halves[2];
    memcpy(halves, lanes, sizeof halves);
    HalfBits more_half = halves[0] > halves[1];
    halves[0] = (halves[0] & more_half) | (halves[1] & ~more_half);
    QuarterBits quarters[2];
    memcpy(quarters, halves, sizeof quarters);
    QuarterBits more = quarters[0] > quarters[1];
    quarters[0] = (quarters[0] & more) | (quarters[1] & ~more);
    int32_t most = 0;
    for (int i = 0; i < 4; i++)
        most = quarters[0][i] > most ? quarters[0][i] : most;
    float found;
    memcpy(&found, &most, sizeof found);
    return found;
}

/* Accumulates 16 components of a query and a row. */
INLINE void add_part(ingot_metric metric, Lanes *sum, const Lanes *x, const Lanes *y) {
    if (metric == METRIC_INNER_PRODUCT || metric == METRIC_COSINE) {
        *sum += *x * *y;
        return;
    }
    Lanes difference = *x - *y;
    if (metric == METRIC_L2) {
        *sum += difference * difference;
        return;
    }
    Bits size = (Bits)difference & 0x7fffffff;
    if (metric == METRIC_L1) {
        *sum += (Lanes)size;
        return;
    }
    Bits more = size > (Bits)*sum;
    *sum = (Lanes)((size & more) | ((Bits)*sum & ~more));
}

INLINE float key_of(ingot_metric metric, const Lanes *sum, float query_square, float row_square) {
    if (metric == METRIC_LINF)
        return largest(sum);
    float found = total(sum);
    if (metric == METRIC_INNER_PRODUCT)
        return -found;
    if (metric != METRIC_COSINE)
        return found;
    float length = sqrtf(query_square) * sqrtf(row_square);
    return length == 0 ? 0 : -found / length; /* NaN compares unequal to 0 */
}

/* The keys of `together` queries, a compile-time constant, for all rows. */
INLINE void keys_of_queries(ingot_metric metric, const float *queries, int together, const float *query_squares,
                            const float *rows, int64_t row_count, int64_t d, float *keys, int64_t key_stride) {
    int64_t whole = d - d % LANES;
    const float *end = rows + row_count * d;
    Bits first;
    ones_for(&first, d - whole);
    Lanes last[4]; /* the last components of the queries */
    for (int q = 0; q < together && whole < d; q++)
        load_some(&last[q], queries + q * d + whole, d - whole, &first, queries + (q + 1) * d);
    for (int64_t row = 0; row < row_count; row++) {
        const float *y = rows + row * d;
        Lanes sums[4] = {{0}}, square = {0};
        for (int64_t i = 0; i < whole; i += LANES) {
            Lanes part;
            load(&part, y + i);
            for (int q = 0; q < together; q++) {
                Lanes x;
                load(&x, queries + q * d + i);
                add_part(metric, &sums[q], &x, &part);
            }
            if (metric == METRIC_COSINE)
                square += part * part;
        }
        if (whole < d) {
            Lanes part;
            load_some(&part, y + whole, d - whole, &first, end);
            for (int q = 0; q < together; q++)
                add_part(metric, &sums[q], &last[q], &part);
            if (metric == METRIC_COSINE)
                square += part * part;
        }
        float row_square = metric == METRIC_COSINE ? total(&square) : 0;
        for (int q = 0; q < together; q++)
            keys[q * key_stride + row] = key_of(metric, &sums[q], query_squares[q], row_square);
    }
}

INLINE float square_of(const float *x, int64_t d, const float *end) {
    int64_t whole = d - d % LANES;
    Bits first;
    ones_for(&first, d - whole);
    Lanes sum = {0}, part;
    for (int64_t i = 0; i < whole; i += LANES) {
        load(&part, x + i);
        sum += part * part;
    }
    if (whole < d) {
        load_some(&part, x + whole, d - whole, &first, end);
        sum += part * part;
    }
    return total(&sum);
}

INLINE void keys_by(ingot_metric metric, const float *queries, int64_t query_count, const float *rows, int64_t row_count,
                    int64_t d, float *keys, int64_t key_stride) {
    float squares[4] = {0};
    int64_t query = 0;
    while (query < query_count) {
        int together = query_count - query >= 4 ? 4 : 1;
        const float *x = queries + query * d;
        for (int q = 0; q < together && metric == METRIC_COSINE; q++)
            squares[q] = square_of(x + q * d, d, x + (q + 1) * d);
        float *to = keys + query * key_stride;
        if (together == 4)
            keys_of_queries(metric, x, 4, squares, rows, row_count, d, to, key_stride);
        else
            keys_of_queries(metric, x, 1, squares, rows, row_count, d, to, key_stride);
        query += together;
    }
}

FOR_EACH_MACHINE
void ingot_keys(ingot_metric metric, const float *queries, int64_t query_count, const float *rows, int64_t row_count, int64_t d,
                float *keys, int64_t key_stride) {
    switch (metric) { /* specialises the loops for each metric */
    case METRIC_L2:
        keys_by(METRIC_L2, queries, query_count, rows, row_count, d, keys, key_stride);
        break;
    case METRIC_L1:
        keys_by(METRIC_L1, queries, query_count, rows, row_count, d, keys, key_stride);
        break;
    case METRIC_LINF:
        keys_by(METRIC_LINF, queries, query_count, rows, row_count, d, keys, key_stride);
        break;
    case METRIC_INNER_PRODUCT:
        keys_by(METRIC_INNER_PRODUCT, queries, query_count, rows, row_count, d, keys, key_stride);
        break;
    case METRIC_COSINE:
        keys_by(METRIC_COSINE, queries, query_count, rows, row_count, d, keys, key_stride);
        break;
    }
}

FOR_EACH_MACHINE
void ingot_squares(const float *rows, int64_t row_count, int64_t d, float *squares) {
    for (int64_t row = 0; row < row_count; row++)
        squares[row] = square_of(rows + row * d, d, rows + row_count * d);
}

/* Most values are above the limit, so whole blocks are skipped at once. */
enum { PART = 4 * LANES };

#define VALUE(i) (values[i] * (factors == NULL ? 1 : factors[i]) + (terms == NULL ? 0 : terms[i]))

INLINE int64_t not_more(const float *values, const float *factors, const float *terms, int64_t count, float limit,
                        int32_t *indices) {
    int64_t found = 0;
    for (int64_t begin = 0; begin < count; begin += PART) {
        int64_t end = begin + PART < count ? begin + PART : count;
        if (end == begin + PART) {
            int32_t more = 0; /* plain C, which the compiler vectorises better here */
            for (int64_t i = begin; i < begin + PART; i++)
                more += VALUE(i) > limit;
            if (more == PART)
                continue;
        }
        for (int64_t i = begin; i < end; i++) {
            indices[found] = (int32_t)i;
            found += !(VALUE(i) > limit);
        }
    }
    return found;
}

FOR_EACH_MACHINE
int64_t ingot_not_more(const float *values, const float *factors, const float *terms, int64_t count, float limit,
                       int32_t *indices) {
    if (factors != NULL)
        return not_more(values, factors, NULL, count, limit, indices);
    if (terms != NULL)
        return not_more(values, NULL, terms, count, limit, indices);
    return not_more(values, NULL, NULL, count, limit, indices);
}
