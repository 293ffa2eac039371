/* Maxima and minima with the semantics of compiled kernels: NaN propagates, and +0 is larger than -0. */
#ifndef INGOT_EXTREMES_H
#define INGOT_EXTREMES_H

#include <stdint.h>
#include <string.h>

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
/* Branch-free and without sums, which GCC vectorises for AVX2 as well as for AVX-512. Of two equal numbers, which differ
 * in nothing but the sign of zeros, the larger has the common bits, and the smaller those of either. */
#define DEFINE_EXTREME(NAME, TYPE, BITS, COMPARE, JOIN)                      \
    static inline __attribute__((always_inline)) TYPE NAME(TYPE a, TYPE b) { \
        TYPE found = a COMPARE b ? a : b, equal;                             \
        BITS x, y;                                                           \
        memcpy(&x, &a, sizeof x);                                            \
        memcpy(&y, &b, sizeof y);                                            \
        x = x JOIN y;                                                        \
        memcpy(&equal, &x, sizeof x);                                        \
        found = a != a ? a : found;                                          \
        return a == b ? equal : found;                                       \
    }
DEFINE_EXTREME(larger_float, float, uint32_t, >, &)
DEFINE_EXTREME(larger_double, double, uint64_t, >, &)
DEFINE_EXTREME(smaller_float, float, uint32_t, <, |)
DEFINE_EXTREME(smaller_double, double, uint64_t, <, |)

#endif
