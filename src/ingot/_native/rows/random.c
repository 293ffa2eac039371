#include "native.h"

#include "rows/random.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "tuning.h"

#include <math.h>
#include <string.h>

typedef uint32_t Words __attribute__((vector_size(64)));

enum { PARITY = 0x1BD11BDA };

static inline int64_t applications_of(const ingot_random_words *job) {
    return (job->words + 1) / 2;
}

/* Four rounds of the cipher and the addition of words of the key that follows them. */
INLINE void mix(Words *x, Words *y, const int rotations[4], uint32_t first, uint32_t second) {
    for (int round = 0; round < 4; round++) {
        *x += *y;
        *y = (*y << rotations[round]) | (*y >> (32 - rotations[round]));
        *y ^= *x;
    }
    *x += first;
    *y += second;
}

/* The applications of the cipher to the counters begin <= i < end, for one key. */
FOR_EACH_MACHINE
static void encrypt(const ingot_random_words *job, int64_t key, int64_t begin, int64_t end) {
    static const int even[4] = {13, 15, 26, 6}, odd[4] = {17, 29, 16, 24};
    const Words lanes = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
    int64_t applications = applications_of(job);
    uint32_t a = job->keys[2 * key], b = job->keys[2 * key + 1], c = a ^ b ^ PARITY;
    uint32_t *first = job->results + 2 * applications * key, *second = first + applications;
    for (int64_t i = begin; i < end; i += LANES) {
        Words x = lanes + (uint32_t)i, y = x + (uint32_t)applications;
        /* The middle one of an odd number of words has no partner. */
        y &= (Words)(y != (uint32_t)job->words);
        x += a;
        y += b;
        mix(&x, &y, even, b, c + 1);
        mix(&x, &y, odd, c, a + 2);
        mix(&x, &y, even, a, b + 3);
        mix(&x, &y, odd, b, c + 4);
        mix(&x, &y, even, c, a + 5);
        size_t size = (size_t)(end - i < LANES ? end - i : LANES) * sizeof(uint32_t);
        memcpy(first + i, &x, size);
        memcpy(second + i, &y, size);
    }
}

/* Iterations are vectors of counters, of all keys one after the other. */
static void fill(void *context, int64_t begin, int64_t end, int Py_UNUSED(thread)) {
    const ingot_random_words *job = context;
    int64_t applications = applications_of(job), vectors = (applications + LANES - 1) / LANES;
    while (begin < end) {
        int64_t key = begin / vectors, from = begin % vectors, count = vectors - from;
        count = count < end - begin ? count : end - begin;
        int64_t last = (from + count) * LANES;
        encrypt(job, key, from * LANES, last < applications ? last : applications);
        begin += count;
    }
}

bool ingot_fill_random_words(const ingot_random_words *job) {
    int64_t count = job->key_count * ((applications_of(job) + LANES - 1) / LANES);
    int64_t grain = RANDOM_GRAIN / LANES;
    return ingot_interruptible_for(fill, (void *)job, 0, count, grain, grain * ingot_num_threads()) == count;
}

FOR_EACH_MACHINE
void ingot_polynomial(const float *x, int64_t count, const float *coefficients, int64_t terms, float *results) {
    for (int64_t i = 0; i < count; i += LANES) {
        int64_t lanes = count - i < LANES ? count - i : LANES;
        float values[LANES] = {0}, sums[LANES];
        memcpy(values, x + i, (size_t)lanes * sizeof(float));
        for (int lane = 0; lane < LANES; lane++)
            sums[lane] = coefficients[0];
        for (int64_t term = 1; term < terms; term++) {
            for (int lane = 0; lane < LANES; lane++)
                sums[lane] = fmaf(sums[lane], values[lane], coefficients[term]);
        }
        memcpy(results + i, sums, (size_t)lanes * sizeof(float));
    }
}
