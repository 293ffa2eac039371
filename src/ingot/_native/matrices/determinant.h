/* Determinants as products of pivots: the exponent of the product is separate, because the product of some of the elements may
 * overflow where that of all does not. */
#ifndef INGOT_DETERMINANT_H
#define INGOT_DETERMINANT_H

#include <math.h>
#include <stdbool.h>

typedef struct {
    double mantissa; /* begins as 1; each of at most a few hundred elements at least halves it: no underflow */
    int exponent;
    bool is_negative, is_singular;
} Determinant;

static inline void ingot_multiply_determinant(Determinant *d, double element, bool exchanges_rows) {
    int power = 0;
    d->is_singular |= element == 0;
    d->is_negative ^= (element < 0) != exchanges_rows;
    d->mantissa *= frexp(fabs(element), &power);
    d->exponent += power;
}

static inline double ingot_sign_of_determinant(const Determinant *d) {
    return d->is_singular ? 0 : d->is_negative ? -1 : 1;
}

static inline double ingot_determinant(const Determinant *d) {
    return d->is_singular ? 0 : ingot_sign_of_determinant(d) * ldexp(d->mantissa, d->exponent);
}

static inline double ingot_log_determinant(const Determinant *d) {
    return d->is_singular ? -(double)INFINITY : log(d->mantissa) + d->exponent * M_LN2;
}

#endif
