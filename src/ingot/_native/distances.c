/* Distances between vectors of float32, 16 numbers at a time.
 *
 * The compiler makes vector instructions of the vector types, and several versions of each function, of which the
 * dynamic linker takes the best that the machine can run. */
#include "distances.h"

#include <math.h>
#include <string.h>

#if defined(__x86_64__) && defined(__gnu_linux__) && defined(__has_attribute)
#if __has_attribute(target_clones)
#define FOR_EACH_MACHINE __attribute__((target_clones("avx512f", "avx2", "default")))
#endif
#endif
#ifndef FOR_EACH_MACHINE
#define FOR_EACH_MACHINE
#endif

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t Bits __attribute__((vector_size(64)));

/* Vectors are passed by address, because how they are passed by value depends on the machine. */

INLINE void load(Lanes *to, const float *from) {
    memcpy(to, from, sizeof *to);
}

/* The last numbers of a vector, with zeros behind them. */
INLINE void load_some(Lanes *to, const float *from, int64_t count) {
    *to = (Lanes){0};
    memcpy(to, from, (size_t)count * sizeof *from);
}

INLINE float total(const Lanes *lanes) {
    float sums[LANES];
    memcpy(sums, lanes, sizeof sums);
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++)
            sums[i] += sums[i + width];
    }
    return sums[0];
}

INLINE float largest(const Lanes *lanes) {
    int32_t bits[LANES];
    float found;
    memcpy(bits, lanes, sizeof bits);
    for (int width = LANES / 2; width > 0; width /= 2) {
        for (int i = 0; i < width; i++)
            bits[i] = bits[i] > bits[i + width] ? bits[i] : bits[i + width];
    }
    memcpy(&found, bits, sizeof found);
    return found;
}

/* What a metric adds up, for one part of a query and a row. */
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
    /* Bits of numbers that are not negative have their order, in which NaN is the largest. */
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
    return length == 0 ? 0 : -found / length; /* NaN is not 0 */
}

/* The keys of `together` queries, a number known when compiled, and all rows. */
INLINE void keys_of_queries(ingot_metric metric, const float *queries, int together, const float *query_squares,
                            const float *rows, int64_t row_count, int64_t d, float *keys, int64_t key_stride) {
    int64_t whole = d - d % LANES;
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
            load_some(&part, y + whole, d - whole);
            for (int q = 0; q < together; q++) {
                Lanes x;
                load_some(&x, queries + q * d + whole, d - whole);
                add_part(metric, &sums[q], &x, &part);
            }
            if (metric == METRIC_COSINE)
                square += part * part;
        }
        float row_square = metric == METRIC_COSINE ? total(&square) : 0;
        for (int q = 0; q < together; q++)
            keys[q * key_stride + row] = key_of(metric, &sums[q], query_squares[q], row_square);
    }
}

INLINE float square_of(const float *x, int64_t d) {
    int64_t whole = d - d % LANES;
    Lanes sum = {0}, part;
    for (int64_t i = 0; i < whole; i += LANES) {
        load(&part, x + i);
        sum += part * part;
    }
    if (whole < d) {
        load_some(&part, x + whole, d - whole);
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
            squares[q] = square_of(x + q * d, d);
        float *to = keys + query * key_stride;
        if (together == 4)
            keys_of_queries(metric, x, 4, squares, rows, row_count, d, to, key_stride);
        else
            keys_of_queries(metric, x, 1, squares, rows, row_count, d, to, key_stride);
        query += together;
    }
}

FOR_EACH_MACHINE
void ingot_keys(ingot_metric metric, const float *queries, int64_t query_count, const float *rows, int64_t row_count,
                int64_t d, float *keys, int64_t key_stride) {
    switch (metric) { /* a version of the loops for each */
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
        squares[row] = square_of(rows + row * d, d);
}

/* Most values are far: whole parts of them are passed over at once. */
enum { PART = 4 * LANES };

#define VALUE(i) (values[i] * (factors == NULL ? 1 : factors[i]) + (terms == NULL ? 0 : terms[i]))

INLINE int64_t not_more(const float *values, const float *factors, const float *terms, int64_t count, float limit,
                        int32_t *places) {
    int64_t found = 0;
    for (int64_t begin = 0; begin < count; begin += PART) {
        int64_t end = begin + PART < count ? begin + PART : count;
        if (end == begin + PART) {
            int32_t more = 0; /* counted in plain C, of which the compiler makes vector instructions better here */
            for (int64_t i = begin; i < begin + PART; i++)
                more += VALUE(i) > limit;
            if (more == PART)
                continue;
        }
        for (int64_t i = begin; i < end; i++) {
            places[found] = (int32_t)i;
            found += !(VALUE(i) > limit);
        }
    }
    return found;
}

FOR_EACH_MACHINE
int64_t ingot_not_more(const float *values, const float *factors, const float *terms, int64_t count, float limit,
                       int32_t *places) {
    if (factors != NULL)
        return not_more(values, factors, NULL, count, limit, places);
    if (terms != NULL)
        return not_more(values, NULL, terms, count, limit, places);
    return not_more(values, NULL, NULL, count, limit, places);
}
