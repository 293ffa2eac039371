/* Tables for transforms of a prime number of vectors: see ingot_fourier_prime. */
#include "fourier/plan.h"

#include <math.h>
#include <stdlib.h>

#include "integers.h"
#include "tuning.h"

static double sums_cost(int64_t length) {
    return (double)((length - 1) * (length - 1));
}

static double convolution_cost(const ingot_fourier_part *part) {
    return 2 * ingot_part_cost(part) + (double)(FOURIER_PASS_COST * part->length);
}

static bool is_smooth(int64_t length) {
    for (int prime = 2; prime <= 7; prime++)
        while (length % prime == 0)
            length /= prime;
    return length == 1;
}

/* Sets the radices of the cheapest convolution, and returns its cost. */
static double best_convolution(int64_t prime, ingot_fourier_part *best) {
    ingot_factorize(best, prime - 1);
    double least = convolution_cost(best);
    for (int64_t length = 2 * prime - 3; length < 4 * prime; length++) {
        ingot_fourier_part part;
        if (!is_smooth(length) || !ingot_factorize(&part, length) || convolution_cost(&part) >= least)
            continue;
        least = convolution_cost(&part);
        *best = part;
    }
    return least;
}

double ingot_prime_cost(int64_t length) {
    ingot_fourier_part best;
    if (length <= MAX_SUMMED_PRIME)
        return sums_cost(length);
    return best_convolution(length, &best);
}

static bool fill_sums(ingot_fourier_prime *prime) {
    int64_t half = prime->length / 2, blocks = (half + SUMS_AT_ONCE - 1) / SUMS_AT_ONCE;
    float *table = prime->table = malloc((size_t)(blocks * half * 2 * SUMS_AT_ONCE) * sizeof(float));
    prime->room = 2 * half;
    if (table == NULL)
        return false;
    for (int64_t block = 0; block < blocks; block++)
        for (int64_t j = 1; j <= half; j++)
            for (int64_t i = 1; i <= SUMS_AT_ONCE; i++, table += 2)
                ingot_set_root(table, table + 1, j * (block * SUMS_AT_ONCE + i), prime->length);
    return true;
}

typedef struct {
    double re, im;
} Number;

/* The transform of `length` numbers in double precision: `from`, each `stride` after the one before, to `to`. `roots` are
 * those of order `all`, and `some` has room for the largest prime factor. */
static void transform_doubles(const Number *from, Number *to, int64_t length, int64_t stride, const Number *roots, int64_t all,
                              Number *some) {
    if (length == 1) {
        *to = *from;
        return;
    }
    int64_t radix = 2;
    while (length % radix != 0)
        radix++;
    int64_t each = length / radix;
    for (int64_t k = 0; k < radix; k++)
        transform_doubles(from + k * stride, to + k * each, each, stride * radix, roots, all, some);
    for (int64_t j = 0; j < each; j++) {
        for (int64_t k = 0; k < radix; k++)
            some[k] = to[k * each + j];
        for (int64_t q = 0; q < radix; q++) {
            Number sum = {0, 0};
            for (int64_t k = 0; k < radix; k++) {
                Number root = roots[(q * each + j) * k % length * (all / length)];
                sum.re += some[k].re * root.re - some[k].im * root.im;
                sum.im += some[k].re * root.im + some[k].im * root.re;
            }
            to[q * each + j] = sum;
        }
    }
}

static Number root_of(int64_t numerator, int64_t order) {
    double angle = 6.28318530717958647693 * (double)(numerator % order) / (double)order;
    return (Number){cos(angle), -sin(angle)};
}

/* The spectrum of roots of unity in the order of the inverse powers, divided by the length of the convolution. */
static bool fill_spectrum(ingot_fourier_prime *prime) {
    int64_t p = prime->length, others = p - 1, length = prime->convolution.length;
    Number *memory = calloc((size_t)(4 * length), sizeof *memory);
    float *table = prime->table = malloc((size_t)(2 * length) * sizeof(float));
    if (memory == NULL || table == NULL) {
        free(memory);
        return false;
    }
    Number *cycle = memory, *spectrum = cycle + length, *roots = spectrum + length, *some = roots + length;
    for (int64_t i = 0; i < length; i++)
        roots[i] = root_of(i, length);
    for (int64_t i = 0; i < others; i++) {
        Number root = root_of(i == 0 ? 1 : prime->powers[others - i], p);
        cycle[i] = root;
        cycle[i == 0 || length == others ? i : length - others + i] = root;
    }
    transform_doubles(cycle, spectrum, length, 1, roots, length, some);
    for (int64_t i = 0; i < length; i++) {
        table[2 * i] = (float)(spectrum[i].re / (double)length);
        table[2 * i + 1] = (float)(spectrum[i].im / (double)length);
    }
    free(memory);
    return true;
}

/* Whether the powers of `base` modulo a prime are all numbers from 1 on; fills them in. */
static bool generates(int64_t base, int64_t prime, int32_t *powers) {
    int64_t power = 1;
    for (int64_t i = 0; i < prime - 1; i++) {
        if (i > 0 && power == 1)
            return false;
        powers[i] = (int32_t)power;
        power = power * base % prime;
    }
    return true;
}

static bool fill_convolution(ingot_fourier_prime *prime, const float *own) {
    int64_t p = prime->length, base = 2;
    best_convolution(p, &prime->convolution);
    prime->powers = malloc((size_t)(p - 1) * sizeof *prime->powers);
    if (prime->powers == NULL || !ingot_fill_part(&prime->convolution, own))
        return false;
    while (!generates(base, p, prime->powers))
        base++;
    prime->room = 2 * prime->convolution.length + prime->convolution.room;
    return fill_spectrum(prime);
}

ingot_fourier_prime *ingot_plan_prime(int64_t length, const float *own) {
    ingot_fourier_prime *prime = calloc(1, sizeof *prime);
    if (prime == NULL)
        return NULL;
    prime->length = length;
    if (length <= MAX_SUMMED_PRIME ? fill_sums(prime) : fill_convolution(prime, own))
        return prime;
    ingot_free_prime(prime);
    return NULL;
}

void ingot_free_prime(ingot_fourier_prime *prime) {
    if (prime == NULL)
        return;
    ingot_free_part(&prime->convolution);
    free(prime->powers);
    free(prime->table);
    free(prime);
}
