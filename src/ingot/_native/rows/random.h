/* Random numbers: MLX's generator, Threefry-2x32 with 20 rounds applied to counters, as ops/random/bits.py explains it,
 * and the polynomials of ops/random/functions.py. */
#ifndef INGOT_RANDOM_H
#define INGOT_RANDOM_H

#include <stdbool.h>
#include <stdint.h>

typedef struct {
    const uint32_t *keys; /* two words for each key */
    uint32_t *results;    /* for each key the first words of all applications of the cipher, then the second words */
    int64_t key_count;
    int64_t words; /* per key; for an odd number, the last result of a key is not one of them */
} ingot_random_words;

/* False if Ctrl-C stopped it. */
bool ingot_fill_random_words(const ingot_random_words *job);

/* The values of a polynomial, highest power first, by Horner's rule with FMA. */
void ingot_polynomial(const float *x, int64_t count, const float *coefficients, int64_t terms, float *results);

#endif
