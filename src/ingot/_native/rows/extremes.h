/* Maxima and minima with the semantics of compiled kernels: NaN propagates, and +0 is larger than -0. */
#ifndef INGOT_EXTREMES_H
#define INGOT_EXTREMES_H

#include <stdint.h>
#include <string.h>

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
/* Branch-free and without sums, which GCC vectorises for AVX2 as well as for AVX-512. Of two equal numbers, which differ
 * in nothing but the sign of zeros, the larger has the common bits, and the smaller those of either. In vectors, the order
 * of choices in which each depends on one comparison takes fewest instructions; of single elements, each compared with
 * the last result, GCC makes branches of that order. */
#define DEFINE_EXTREME(NAME, TYPE, BITS, COMPARE, JOIN)                               \
    static inline __attribute__((always_inline)) TYPE equal_##NAME(TYPE a, TYPE b) {  \
        TYPE found;                                                                   \
        BITS x, y;                                                                    \
        memcpy(&x, &a, sizeof x);                                                     \
        memcpy(&y, &b, sizeof y);                                                     \
        x = x JOIN y;                                                                 \
        memcpy(&found, &x, sizeof x);                                                 \
        return found;                                                                 \
    }                                                                                 \
    static inline __attribute__((always_inline)) TYPE NAME(TYPE a, TYPE b) {          \
        TYPE found = a COMPARE b ? a : b, equal = equal_##NAME(a, b);                 \
        found = a != a ? a : found;                                                   \
        return a == b ? equal : found;                                                \
    }                                                                                 \
    static inline __attribute__((always_inline)) TYPE vector_##NAME(TYPE a, TYPE b) { \
        TYPE equal = equal_##NAME(a, b), found = a == b ? equal : b;                  \
        found = a != a ? a : found;                                                   \
        return a COMPARE b ? a : found;                                               \
    }
DEFINE_EXTREME(larger_float, float, uint32_t, >, &)
DEFINE_EXTREME(larger_double, double, uint64_t, >, &)
DEFINE_EXTREME(smaller_float, float, uint32_t, <, |)
DEFINE_EXTREME(smaller_double, double, uint64_t, <, |)

#endif
