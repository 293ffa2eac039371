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
#define MAX_BUTTERFLY 13 /* the largest radix with a butterfly of its own */
#define SUMS_AT_ONCE 4   /* results of a larger prime that are summed together: as many as registers hold */

typedef struct ingot_fourier_prime ingot_fourier_prime;

/* A transform of `length` vectors, as passes with radices whose product it is. */
typedef struct {
    int64_t length;
    int passes;
    int radices[MAX_PASSES];
    float *roots[MAX_PASSES]; /* of each pass, real and imaginary parts in turn: radix - 1 for each butterfly */
    const float *own;         /* the roots of all odd radices up to 13, at 2 * radix * radix: those of order radix */
    ingot_fourier_prime *primes[MAX_PASSES]; /* of passes with larger radices */
    int64_t room;                            /* numbers of scratch that they need */
    float *memory;                           /* that of the roots */
} ingot_fourier_part;

/* A transform of a prime number of vectors: by definition, or as a cyclic convolution (Rader's algorithm) with zeros appended
 * if its length has no quick transform. */
struct ingot_fourier_prime {
    int64_t length;
    ingot_fourier_part convolution;
    int32_t *powers; /* length - 1 powers of a generator, modulo length; NULL: by definition */
    float *table;    /* what numbers are multiplied by: the spectrum of the convolution, or the cosines and sines of
                      * SUMS_AT_ONCE results at a time, for each symmetric pair of numbers */
    int64_t room;
};

typedef struct {
    int64_t length; /* of the complex transform */
    int64_t lanes;  /* of the vectors */
    bool is_real;   /* transforms of 2 * length real numbers */
    bool is_split;
    ingot_fourier_part parts[2];      /* columns and rows; if it is not split, the first alone */
    float *cross_real, *cross_imag;   /* split: the roots between, `parts[1].length` for each of `parts[0].length` */
    float *halves_real, *halves_imag; /* real: -i/2 times the first roots of order 2 * length */
    float *memory;                    /* that of all tables but those of the parts */
} ingot_fourier_plan;

/* NULL if the length has too large a prime factor or the memory is not available; `supported` says which. */
ingot_fourier_plan *ingot_plan_fourier(int64_t length, bool is_real, int64_t lanes, bool *supported);
void ingot_free_fourier_plan(ingot_fourier_plan *plan);

/* ---- parts, which transforms of primes have, too ---- */

/* exp(-2 pi i numerator / order), with exact zeros and ones. */
void ingot_set_root(float *re, float *im, int64_t numerator, int64_t order);
/* Sets the length and the radices; false if a prime factor is too large. */
bool ingot_factorize(ingot_fourier_part *part, int64_t length);
/* Fills the tables; false if the memory is not available. What it has is freed in any case by ingot_free_part. */
bool ingot_fill_part(ingot_fourier_part *part, const float *own);
void ingot_free_part(ingot_fourier_part *part);
/* Instructions of a transform, about. */
double ingot_part_cost(const ingot_fourier_part *part);

/* NULL if the memory is not available. */
ingot_fourier_prime *ingot_plan_prime(int64_t length, const float *own);
void ingot_free_prime(ingot_fourier_prime *prime);
double ingot_prime_cost(int64_t length);

#endif
