/* The inner loops of scans. Integers wrap around, so they are added and multiplied as unsigned. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "rows/scan_kernels.h"

#include <math.h>
#include <string.h>

#include "rows/extremes.h"
#include "search/vectors.h"
#include "tuning.h"

#ifdef AVX512
#include <immintrin.h>
#endif

INLINE float logaddexp_float(float a, float b) {
    float difference = a - b;
    if (a == b)
        return a + 0.693147180559945309417232121458f; /* also for infinities */
    if (difference > 0)
        return a + log1pf(expf(-difference));
    return difference <= 0 ? b + log1pf(expf(difference)) : difference; /* NaN */
}

INLINE double logaddexp_double(double a, double b) {
    double difference = a - b;
    if (a == b)
        return a + 0.693147180559945309417232121458;
    if (difference > 0)
        return a + log1p(exp(-difference));
    return difference <= 0 ? b + log1p(exp(difference)) : difference;
}

#define ADD(a, b) ((a) + (b))
#define MULTIPLY(a, b) ((a) * (b))

#define TYPE uint8_t
#define ACC uint32_t
#define NAME(x) sum_8_##x
#define COMBINE(a, b) ADD(a, b)
#define IDENTITY 0
#include "rows/scan_loop.h"

#define TYPE uint8_t
#define ACC uint32_t
#define NAME(x) product_8_##x
#define COMBINE(a, b) MULTIPLY(a, b)
#define IDENTITY 1
#include "rows/scan_loop.h"

#define TYPE uint16_t
#define ACC uint32_t
#define NAME(x) sum_16_##x
#define COMBINE(a, b) ADD(a, b)
#define IDENTITY 0
#include "rows/scan_loop.h"

#define TYPE uint16_t
#define ACC uint32_t
#define NAME(x) product_16_##x
#define COMBINE(a, b) MULTIPLY(a, b)
#define IDENTITY 1
#include "rows/scan_loop.h"

#define TYPE uint32_t
#define ACC uint32_t
#define NAME(x) sum_32_##x
#define COMBINE(a, b) ADD(a, b)
#define IDENTITY 0
#include "rows/scan_loop.h"

#define TYPE uint32_t
#define ACC uint32_t
#define NAME(x) product_32_##x
#define COMBINE(a, b) MULTIPLY(a, b)
#define IDENTITY 1
#include "rows/scan_loop.h"

#define TYPE uint64_t
#define ACC uint64_t
#define NAME(x) sum_64_##x
#define COMBINE(a, b) ADD(a, b)
#define IDENTITY 0
#include "rows/scan_loop.h"

#define TYPE uint64_t
#define ACC uint64_t
#define NAME(x) product_64_##x
#define COMBINE(a, b) MULTIPLY(a, b)
#define IDENTITY 1
#include "rows/scan_loop.h"

/* -0 is the identity of addition: -0 + x is x for every x, -0 included. */
#define TYPE float
#define ACC double
#define NAME(x) sum_float_##x
#define COMBINE(a, b) ADD(a, b)
#define IDENTITY (-0.0)
#include "rows/scan_loop.h"

#ifdef AVX512
/* The transpose of 8 x 8 floats. */
AVX512 INLINE void transpose(__m256 *x) {
    __m256 pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            fours[i + 2 * j] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0x44);
            fours[i + 2 * j + 1] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0xEE);
        }
    for (int i = 0; i < 4; i++) {
        x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
        x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
}

/* The sums of contiguous segments, a lane for each, whose elements are transposed to lanes and back. */
AVX512 INLINE __m512d sums_in_lanes(const char *const *from, char *const *to, int64_t count, __m512d sums) {
    for (int64_t i = 0; i < count; i += SEGMENTS) {
        __m256 x[SEGMENTS];
        for (int s = 0; s < SEGMENTS; s++)
            memcpy(&x[s], from[s] + i * (int64_t)sizeof(float), sizeof x[s]);
        transpose(x);
        for (int s = 0; s < SEGMENTS; s++) {
            sums = _mm512_add_pd(sums, _mm512_cvtps_pd(x[s]));
            x[s] = _mm512_cvtpd_ps(sums);
        }
        if (to == NULL)
            continue;
        transpose(x);
        for (int s = 0; s < SEGMENTS; s++)
            memcpy(to[s] + i * (int64_t)sizeof(float), &x[s], sizeof x[s]);
    }
    return sums;
}

/* Same as sum_float_segments(). */
AVX512 static void sum_float_segments_avx512(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count,
                                             void *values) {
    bool in_lanes = in == (int64_t)sizeof(float) && (to == NULL || out == (int64_t)sizeof(float));
    int64_t whole = in_lanes ? count - count % SEGMENTS : 0;
    const char *rest[SEGMENTS];
    char *results[SEGMENTS];
    __m512d sums = _mm512_loadu_pd(values);
    sums = to == NULL ? sums_in_lanes(from, NULL, whole, sums) : sums_in_lanes(from, to, whole, sums);
    _mm512_storeu_pd(values, sums);
    for (int s = 0; s < SEGMENTS; s++) {
        rest[s] = from[s] + whole * in;
        results[s] = to == NULL ? NULL : to[s] + whole * out;
    }
    if (whole < count)
        sum_float_segments(rest, to == NULL ? NULL : results, in, out, count - whole, values);
}

static const ingot_scan_kernel sum_float_avx512_kernel = {
    sum_float_segments_avx512, sum_float_segment, sum_float_columns, sum_float_start, sum_float_follow, sizeof(double),
};
#endif

#define TYPE double
#define ACC double
#define NAME(x) sum_double_##x
#define COMBINE(a, b) ADD(a, b)
#define IDENTITY (-0.0)
#include "rows/scan_loop.h"

#define TYPE float
#define ACC float
#define NAME(x) product_float_##x
#define COMBINE(a, b) MULTIPLY(a, b)
#define IDENTITY 1
#include "rows/scan_loop.h"

#define TYPE double
#define ACC double
#define NAME(x) product_double_##x
#define COMBINE(a, b) MULTIPLY(a, b)
#define IDENTITY 1
#include "rows/scan_loop.h"

#define TYPE uint8_t
#define ACC uint8_t
#define NAME(x) maximum_uint8_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY 0
#include "rows/scan_loop.h"

#define TYPE uint8_t
#define ACC uint8_t
#define NAME(x) minimum_uint8_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY UINT8_MAX
#include "rows/scan_loop.h"

#define TYPE int8_t
#define ACC int8_t
#define NAME(x) maximum_int8_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY INT8_MIN
#include "rows/scan_loop.h"

#define TYPE int8_t
#define ACC int8_t
#define NAME(x) minimum_int8_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY INT8_MAX
#include "rows/scan_loop.h"

#define TYPE uint16_t
#define ACC uint16_t
#define NAME(x) maximum_uint16_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY 0
#include "rows/scan_loop.h"

#define TYPE uint16_t
#define ACC uint16_t
#define NAME(x) minimum_uint16_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY UINT16_MAX
#include "rows/scan_loop.h"

#define TYPE int16_t
#define ACC int16_t
#define NAME(x) maximum_int16_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY INT16_MIN
#include "rows/scan_loop.h"

#define TYPE int16_t
#define ACC int16_t
#define NAME(x) minimum_int16_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY INT16_MAX
#include "rows/scan_loop.h"

#define TYPE uint32_t
#define ACC uint32_t
#define NAME(x) maximum_uint32_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY 0
#include "rows/scan_loop.h"

#define TYPE uint32_t
#define ACC uint32_t
#define NAME(x) minimum_uint32_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY UINT32_MAX
#include "rows/scan_loop.h"

#define TYPE int32_t
#define ACC int32_t
#define NAME(x) maximum_int32_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY INT32_MIN
#include "rows/scan_loop.h"

#define TYPE int32_t
#define ACC int32_t
#define NAME(x) minimum_int32_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY INT32_MAX
#include "rows/scan_loop.h"

#define TYPE uint64_t
#define ACC uint64_t
#define NAME(x) maximum_uint64_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY 0
#include "rows/scan_loop.h"

#define TYPE uint64_t
#define ACC uint64_t
#define NAME(x) minimum_uint64_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY UINT64_MAX
#include "rows/scan_loop.h"

#define TYPE int64_t
#define ACC int64_t
#define NAME(x) maximum_int64_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY INT64_MIN
#include "rows/scan_loop.h"

#define TYPE int64_t
#define ACC int64_t
#define NAME(x) minimum_int64_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY INT64_MAX
#include "rows/scan_loop.h"

#define TYPE float
#define ACC float
#define NAME(x) maximum_float_##x
#define COMBINE(a, b) larger_float(a, b)
#define IDENTITY (-INFINITY)
#include "rows/scan_loop.h"

#define TYPE float
#define ACC float
#define NAME(x) minimum_float_##x
#define COMBINE(a, b) smaller_float(a, b)
#define IDENTITY INFINITY
#include "rows/scan_loop.h"

#define TYPE float
#define ACC float
#define NAME(x) logaddexp_float_##x
#define COMBINE(a, b) logaddexp_float(a, b)
#define IDENTITY (-INFINITY)
#include "rows/scan_loop.h"

#define TYPE double
#define ACC double
#define NAME(x) maximum_double_##x
#define COMBINE(a, b) larger_double(a, b)
#define IDENTITY (-INFINITY)
#include "rows/scan_loop.h"

#define TYPE double
#define ACC double
#define NAME(x) minimum_double_##x
#define COMBINE(a, b) smaller_double(a, b)
#define IDENTITY INFINITY
#include "rows/scan_loop.h"

#define TYPE double
#define ACC double
#define NAME(x) logaddexp_double_##x
#define COMBINE(a, b) logaddexp_double(a, b)
#define IDENTITY (-INFINITY)
#include "rows/scan_loop.h"

static const ingot_scan_kernel *const kernels[][DTYPE_COUNT] = {
    [SCAN_SUM] = {[UINT8] = &sum_8_kernel,
                  [INT8] = &sum_8_kernel,
                  [UINT16] = &sum_16_kernel,
                  [INT16] = &sum_16_kernel,
                  [UINT32] = &sum_32_kernel,
                  [INT32] = &sum_32_kernel,
                  [UINT64] = &sum_64_kernel,
                  [INT64] = &sum_64_kernel,
                  [FLOAT32] = &sum_float_kernel,
                  [FLOAT64] = &sum_double_kernel},
    [SCAN_PRODUCT] = {[BOOL] = &minimum_uint8_kernel,
                      [UINT8] = &product_8_kernel,
                      [INT8] = &product_8_kernel,
                      [UINT16] = &product_16_kernel,
                      [INT16] = &product_16_kernel,
                      [UINT32] = &product_32_kernel,
                      [INT32] = &product_32_kernel,
                      [UINT64] = &product_64_kernel,
                      [INT64] = &product_64_kernel,
                      [FLOAT32] = &product_float_kernel,
                      [FLOAT64] = &product_double_kernel},
    [SCAN_MAXIMUM] = {[BOOL] = &maximum_uint8_kernel,
                      [UINT8] = &maximum_uint8_kernel,
                      [INT8] = &maximum_int8_kernel,
                      [UINT16] = &maximum_uint16_kernel,
                      [INT16] = &maximum_int16_kernel,
                      [UINT32] = &maximum_uint32_kernel,
                      [INT32] = &maximum_int32_kernel,
                      [UINT64] = &maximum_uint64_kernel,
                      [INT64] = &maximum_int64_kernel,
                      [FLOAT32] = &maximum_float_kernel,
                      [FLOAT64] = &maximum_double_kernel},
    [SCAN_MINIMUM] = {[BOOL] = &minimum_uint8_kernel,
                      [UINT8] = &minimum_uint8_kernel,
                      [INT8] = &minimum_int8_kernel,
                      [UINT16] = &minimum_uint16_kernel,
                      [INT16] = &minimum_int16_kernel,
                      [UINT32] = &minimum_uint32_kernel,
                      [INT32] = &minimum_int32_kernel,
                      [UINT64] = &minimum_uint64_kernel,
                      [INT64] = &minimum_int64_kernel,
                      [FLOAT32] = &minimum_float_kernel,
                      [FLOAT64] = &minimum_double_kernel},
    [SCAN_LOGADDEXP] = {[FLOAT32] = &logaddexp_float_kernel, [FLOAT64] = &logaddexp_double_kernel},
};

const ingot_scan_kernel *ingot_find_scan(ingot_scan_kind kind, int dtype) {
    if (dtype < 0 || dtype >= DTYPE_COUNT)
        return NULL;
#ifdef AVX512
    if (kernels[kind][dtype] == &sum_float_kernel && ingot_has_avx512())
        return &sum_float_avx512_kernel;
#endif
    return kernels[kind][dtype];
}
