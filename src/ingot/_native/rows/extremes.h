/* Maxima and minima as kernels compute them: NaN spreads, and of two zeros +0 is the larger. */
#ifndef INGOT_EXTREMES_H
#define INGOT_EXTREMES_H

#define LARGER(a, b) ((a) > (b) ? (a) : (b))
#define SMALLER(a, b) ((a) < (b) ? (a) : (b))
/* Everything is computed and then chosen, so that loops become vectors; a sum of zeros is +0 if one of them is. */
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
