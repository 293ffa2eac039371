/* The inner loops of scans. Integers wrap around, so they are added and multiplied as unsigned. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "rows/scan_kernels.h"

#include <math.h>
#include <string.h>

#include "rows/extremes.h"
#include "rows/scan_blocks.h"
#include "search/vectors.h"
#include "tuning.h"

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

#ifdef AVX512
/* Maxima and minima of vectors: of SEGMENTS lanes, and of the lanes of 32 bytes. */
#define SELECT(VECTOR, mask, a, b) ((VECTOR)(((mask) & (__typeof__(mask))(a)) | (~(mask) & (__typeof__(mask))(b))))
#define DEFINE_EXTREME_LANES(TARGET, NAME, TYPE, BYTES)    \
    typedef TYPE NAME __attribute__((vector_size(BYTES))); \
    TARGET INLINE NAME larger_##NAME(NAME a, NAME b) {     \
        return SELECT(NAME, a > b, a, b);                  \
    }                                                      \
    TARGET INLINE NAME smaller_##NAME(NAME a, NAME b) {    \
        return SELECT(NAME, a < b, a, b);                  \
    }
#define DEFINE_INEXACT_EXTREME_LANES(TARGET, NAME, TYPE, BYTES)     \
    typedef TYPE NAME __attribute__((vector_size(BYTES)));          \
    TARGET INLINE NAME larger_##NAME(NAME a, NAME b) {              \
        NAME found = SELECT(NAME, (a > b) | (a != a), a, b);        \
        return SELECT(NAME, (a == 0) & (b == 0), a + b, found);     \
    }                                                               \
    TARGET INLINE NAME smaller_##NAME(NAME a, NAME b) {             \
        NAME found = SELECT(NAME, (a < b) | (a != a), a, b);        \
        return SELECT(NAME, (a == 0) & (b == 0), -(-a - b), found); \
    }
#define DEFINE_FOR_BOTH(DEFINE, NAME, TYPE)              \
    DEFINE(AVX512, lanes_##NAME, TYPE, 8 * sizeof(TYPE)) \
    DEFINE(AVX2, whole_##NAME, TYPE, 32)
DEFINE_FOR_BOTH(DEFINE_EXTREME_LANES, uint32, uint32_t)
DEFINE_FOR_BOTH(DEFINE_EXTREME_LANES, int32, int32_t)
DEFINE_FOR_BOTH(DEFINE_EXTREME_LANES, uint64, uint64_t)
DEFINE_FOR_BOTH(DEFINE_EXTREME_LANES, int64, int64_t)
DEFINE_FOR_BOTH(DEFINE_INEXACT_EXTREME_LANES, float, float)
DEFINE_FOR_BOTH(DEFINE_INEXACT_EXTREME_LANES, double, double)
#endif

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
#define BLOCK(x) x##_4
#define COMBINE_LANES(x, a, b) ADD(a, b)
#include "rows/scan_loop.h"

#define TYPE uint32_t
#define ACC uint32_t
#define NAME(x) product_32_##x
#define COMBINE(a, b) MULTIPLY(a, b)
#define IDENTITY 1
#define BLOCK(x) x##_4
#define COMBINE_LANES(x, a, b) MULTIPLY(a, b)
#include "rows/scan_loop.h"

#define TYPE uint64_t
#define ACC uint64_t
#define NAME(x) sum_64_##x
#define COMBINE(a, b) ADD(a, b)
#define IDENTITY 0
#define BLOCK(x) x##_8
#define COMBINE_LANES(x, a, b) ADD(a, b)
#include "rows/scan_loop.h"

#define TYPE uint64_t
#define ACC uint64_t
#define NAME(x) product_64_##x
#define COMBINE(a, b) MULTIPLY(a, b)
#define IDENTITY 1
#define BLOCK(x) x##_8
#define COMBINE_LANES(x, a, b) MULTIPLY(a, b)
#include "rows/scan_loop.h"

/* -0 is the identity of addition: -0 + x is x for every x, -0 included. */
#define TYPE float
#define ACC double
#define NAME(x) sum_float_##x
#define COMBINE(a, b) ADD(a, b)
#define IDENTITY (-0.0)
#define BLOCK(x) x##_widened
#define COMBINE_LANES(x, a, b) ADD(a, b)
#include "rows/scan_loop.h"

#define TYPE double
#define ACC double
#define NAME(x) sum_double_##x
#define COMBINE(a, b) ADD(a, b)
#define IDENTITY (-0.0)
#define BLOCK(x) x##_8
#define COMBINE_LANES(x, a, b) ADD(a, b)
#include "rows/scan_loop.h"

#define TYPE float
#define ACC float
#define NAME(x) product_float_##x
#define COMBINE(a, b) MULTIPLY(a, b)
#define IDENTITY 1
#define BLOCK(x) x##_4
#define COMBINE_LANES(x, a, b) MULTIPLY(a, b)
#include "rows/scan_loop.h"

#define TYPE double
#define ACC double
#define NAME(x) product_double_##x
#define COMBINE(a, b) MULTIPLY(a, b)
#define IDENTITY 1
#define BLOCK(x) x##_8
#define COMBINE_LANES(x, a, b) MULTIPLY(a, b)
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
#define BLOCK(x) x##_4
#define COMBINE_LANES(x, a, b) larger_##x##_uint32(a, b)
#include "rows/scan_loop.h"

#define TYPE uint32_t
#define ACC uint32_t
#define NAME(x) minimum_uint32_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY UINT32_MAX
#define BLOCK(x) x##_4
#define COMBINE_LANES(x, a, b) smaller_##x##_uint32(a, b)
#include "rows/scan_loop.h"

#define TYPE int32_t
#define ACC int32_t
#define NAME(x) maximum_int32_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY INT32_MIN
#define BLOCK(x) x##_4
#define COMBINE_LANES(x, a, b) larger_##x##_int32(a, b)
#include "rows/scan_loop.h"

#define TYPE int32_t
#define ACC int32_t
#define NAME(x) minimum_int32_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY INT32_MAX
#define BLOCK(x) x##_4
#define COMBINE_LANES(x, a, b) smaller_##x##_int32(a, b)
#include "rows/scan_loop.h"

#define TYPE uint64_t
#define ACC uint64_t
#define NAME(x) maximum_uint64_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY 0
#define BLOCK(x) x##_8
#define COMBINE_LANES(x, a, b) larger_##x##_uint64(a, b)
#include "rows/scan_loop.h"

#define TYPE uint64_t
#define ACC uint64_t
#define NAME(x) minimum_uint64_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY UINT64_MAX
#define BLOCK(x) x##_8
#define COMBINE_LANES(x, a, b) smaller_##x##_uint64(a, b)
#include "rows/scan_loop.h"

#define TYPE int64_t
#define ACC int64_t
#define NAME(x) maximum_int64_##x
#define COMBINE(a, b) LARGER(a, b)
#define IDENTITY INT64_MIN
#define BLOCK(x) x##_8
#define COMBINE_LANES(x, a, b) larger_##x##_int64(a, b)
#include "rows/scan_loop.h"

#define TYPE int64_t
#define ACC int64_t
#define NAME(x) minimum_int64_##x
#define COMBINE(a, b) SMALLER(a, b)
#define IDENTITY INT64_MAX
#define BLOCK(x) x##_8
#define COMBINE_LANES(x, a, b) smaller_##x##_int64(a, b)
#include "rows/scan_loop.h"

#define TYPE float
#define ACC float
#define NAME(x) maximum_float_##x
#define COMBINE(a, b) larger_float(a, b)
#define BRANCHES
#define IDENTITY (-INFINITY)
#define BLOCK(x) x##_4
#define COMBINE_LANES(x, a, b) larger_##x##_float(a, b)
#include "rows/scan_loop.h"

#define TYPE float
#define ACC float
#define NAME(x) minimum_float_##x
#define COMBINE(a, b) smaller_float(a, b)
#define BRANCHES
#define IDENTITY INFINITY
#define BLOCK(x) x##_4
#define COMBINE_LANES(x, a, b) smaller_##x##_float(a, b)
#include "rows/scan_loop.h"

#define TYPE float
#define ACC float
#define NAME(x) logaddexp_float_##x
#define COMBINE(a, b) logaddexp_float(a, b)
#define BRANCHES
#define IDENTITY (-INFINITY)
#include "rows/scan_loop.h"

#define TYPE double
#define ACC double
#define NAME(x) maximum_double_##x
#define COMBINE(a, b) larger_double(a, b)
#define BRANCHES
#define IDENTITY (-INFINITY)
#define BLOCK(x) x##_8
#define COMBINE_LANES(x, a, b) larger_##x##_double(a, b)
#include "rows/scan_loop.h"

#define TYPE double
#define ACC double
#define NAME(x) minimum_double_##x
#define COMBINE(a, b) smaller_double(a, b)
#define BRANCHES
#define IDENTITY INFINITY
#define BLOCK(x) x##_8
#define COMBINE_LANES(x, a, b) smaller_##x##_double(a, b)
#include "rows/scan_loop.h"

#define TYPE double
#define ACC double
#define NAME(x) logaddexp_double_##x
#define COMBINE(a, b) logaddexp_double(a, b)
#define BRANCHES
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
    return kernels[kind][dtype];
}
