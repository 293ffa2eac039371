/* Maxima and minima with the semantics of compiled kernels: NaN propagates, and +0 is larger than -0. */
#ifndef INGOT_EXTREMES_H
#define INGOT_EXTREMES_H

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
/* Branch-free, so that loops vectorise: both results are computed and one is selected. The sum of two zeros is +0 if
 * either is. */
#define DEFINE_EXTREMES(TYPE)                                                          \
    static inline __attribute__((always_inline)) TYPE larger_##TYPE(TYPE a, TYPE b) {  \
        TYPE zero = a + b, found = a > b ? a : b;                                      \
        found = a != a ? a : found;                                                    \
        return ((a == 0) & (b == 0)) ? zero : found;                                   \
    }                                                                                  \
    static inline __attribute__((always_inline)) TYPE smaller_##TYPE(TYPE a, TYPE b) { \
        TYPE zero = -(-a - b), found = a < b ? a : b;                                  \
        found = a != a ? a : found;                                                    \
        return ((a == 0) & (b == 0)) ? zero : found;                                   \
    }
DEFINE_EXTREMES(float)
DEFINE_EXTREMES(double)

#endif
