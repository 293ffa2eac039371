/* How Fourier transforms of one length are computed: factors and roots of unity. Immutable, so threads share plans.
 *
 * Short transforms are computed for as many rows at once as a vector has lanes. Long ones are split, n = columns *
 * rows: transforms of the columns, a multiplication by roots, and transforms of the rows, where the lanes are columns
 * and then rows of one array. Both use the same passes over vectors (fourier_loop.h). Which one is used depends on the
 * length alone, so that the bits of a result depend neither on the number of rows nor on threads or strides. */
#ifndef INGOT_FOURIER_PLAN_H
#define INGOT_FOURIER_PLAN_H

#include <stdbool.h>
#include <stdint.h>

#define MAX_PASSES 32

/* A transform of `length` vectors, as passes with radices whose product it is. */
typedef struct {
    int64_t length;
    int passes;
    int radices[MAX_PASSES];
    float *roots[MAX_PASSES]; /* of each pass, real and imaginary parts in turn: radix - 1 for each butterfly */
    float *own;               /* the roots of all odd radices up to 13, at 2 * radix * radix: those of order radix */
} ingot_fourier_part;

typedef struct {
    int64_t length; /* of the complex transform */
    int64_t lanes;  /* of the vectors */
    bool is_real;   /* transforms of 2 * length real numbers */
    bool is_split;
    ingot_fourier_part parts[2];      /* columns and rows; if it is not split, the first alone */
    float *cross_real, *cross_imag;   /* split: the roots between, `parts[1].length` for each of `parts[0].length` */
    float *halves_real, *halves_imag; /* real: -i/2 times the first roots of order 2 * length */
    float *memory;                    /* that of all tables */
} ingot_fourier_plan;

/* NULL if the length has a prime factor above 13 or the memory is not available; `supported` says which. */
ingot_fourier_plan *ingot_plan_fourier(int64_t length, bool is_real, int64_t lanes, bool *supported);
void ingot_free_fourier_plan(ingot_fourier_plan *plan);

#endif
