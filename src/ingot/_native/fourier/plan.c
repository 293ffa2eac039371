#include "fourier/plan.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "integers.h"
#include "tuning.h"

static const int ODD_RADICES[] = {3, 5, 7, 11, 13};
enum { ODD_COUNT = sizeof ODD_RADICES / sizeof *ODD_RADICES, OWN_ROOTS = 2 * MAX_BUTTERFLY * (MAX_BUTTERFLY + 1) };

void ingot_set_root(float *re, float *im, int64_t numerator, int64_t order) {
    int64_t quarters = 4 * (numerator % order);
    double angle = 1.57079632679489661923 * (double)(quarters % order) / (double)order;
    float cosine = (float)cos(angle), sine = (float)sin(angle);
    switch (quarters / order) {
    case 0:
        *re = cosine, *im = -sine;
        break;
    case 1:
        *re = -sine, *im = -cosine;
        break;
    case 2:
        *re = -cosine, *im = sine;
        break;
    default:
        *re = sine, *im = cosine;
    }
}

bool ingot_factorize(ingot_fourier_part *part, int64_t length) {
    memset(part, 0, sizeof *part);
    part->length = length;
    for (int i = 0; i < ODD_COUNT; i++)
        for (; length % ODD_RADICES[i] == 0; length /= ODD_RADICES[i])
            part->radices[part->passes++] = ODD_RADICES[i];
    for (int prime = MAX_BUTTERFLY + 2; prime <= smaller(length, MAX_FOURIER_PRIME); prime += 2)
        for (; length % prime == 0; length /= prime)
            part->radices[part->passes++] = prime;
    for (; length % 8 == 0 && length != 16; length /= 8)
        part->radices[part->passes++] = 8;
    for (; length % 4 == 0; length /= 4)
        part->radices[part->passes++] = 4;
    for (; length % 2 == 0; length /= 2)
        part->radices[part->passes++] = 2;
    return length == 1;
}

double ingot_part_cost(const ingot_fourier_part *part) {
    double each = 0;
    for (int i = 0; i < part->passes; i++) {
        int radix = part->radices[i];
        each += FOURIER_PASS_COST;
        if (radix > MAX_BUTTERFLY)
            each += ingot_prime_cost(radix) / radix;
        else
            each += radix % 2 == 0 ? 2 * log2(radix) : radix - 1;
    }
    return each * (double)part->length;
}

/* How many floats the roots of all passes take. */
static int64_t roots_size(const ingot_fourier_part *part) {
    int64_t size = 0, count = part->length;
    for (int i = 0; i < part->passes; i++) {
        count /= part->radices[i];
        size += 2 * count * (part->radices[i] - 1);
    }
    return size;
}

bool ingot_fill_part(ingot_fourier_part *part, const float *own) {
    int64_t order = part->length, size = roots_size(part);
    float *memory = part->memory = malloc((size_t)(size + 1) * sizeof(float));
    if (memory == NULL)
        return false;
    part->own = own;
    for (int i = 0; i < part->passes; i++) {
        int radix = part->radices[i];
        part->roots[i] = memory;
        for (int64_t p = 0; p < order / radix; p++)
            for (int k = 1; k < radix; k++, memory += 2)
                ingot_set_root(memory, memory + 1, p * k, order);
        order /= radix;
        if (radix <= MAX_BUTTERFLY)
            continue;
        part->primes[i] = ingot_plan_prime(radix, own);
        if (part->primes[i] == NULL)
            return false;
        part->room = larger(part->room, part->primes[i]->room);
    }
    return true;
}

void ingot_free_part(ingot_fourier_part *part) {
    for (int i = 0; i < part->passes; i++)
        ingot_free_prime(part->primes[i]);
    free(part->memory);
}

/* The time of a transform of `length` vectors, relative to one in L1. */
static double cache_factor(int64_t length, int64_t lanes) {
    int64_t bytes = 2 * length * lanes * 2 * (int64_t)sizeof(float);
    return bytes <= FOURIER_L1_BYTES ? 1 : (bytes <= FOURIER_L2_BYTES ? FOURIER_L2_PERCENT : FOURIER_MEMORY_PERCENT) / 100.0;
}

static double padded(int64_t length, int64_t lanes) {
    int64_t vectors = (length + lanes - 1) / lanes;
    return (double)(vectors * lanes) / (double)length;
}

/* The number of rows to split a transform into, 0 if it should not be. */
static int64_t best_split(int64_t length, int64_t lanes) {
    double least = length > MAX_WHOLE_FOURIER_LENGTH ? INFINITY : 2 * cache_factor(length, lanes);
    int64_t best = 0;
    for (int64_t rows = lanes; rows <= length / lanes; rows++) {
        if (length % rows != 0)
            continue;
        int64_t columns = length / rows;
        double cost = (cache_factor(rows, lanes) * padded(columns, lanes) + cache_factor(columns, lanes) * padded(rows, lanes));
        if (cost < least) {
            least = cost;
            best = rows;
        }
    }
    return best;
}

ingot_fourier_plan *ingot_plan_fourier(int64_t length, bool is_real, int64_t lanes, bool *supported) {
    ingot_fourier_part whole;
    *supported = ingot_factorize(&whole, length);
    ingot_fourier_plan *plan = *supported ? calloc(1, sizeof *plan) : NULL;
    if (plan == NULL)
        return NULL;
    int64_t rows = best_split(length, lanes);
    plan->length = length;
    plan->lanes = lanes;
    plan->is_real = is_real;
    plan->is_split = rows > 0;
    ingot_factorize(&plan->parts[0], plan->is_split ? rows : length);
    ingot_factorize(&plan->parts[1], plan->is_split ? length / rows : 1);
    int64_t size = OWN_ROOTS + (plan->is_split ? 2 * length : 0) + (is_real ? 2 * length : 0);
    plan->memory = malloc((size_t)size * sizeof(float));
    if (plan->memory == NULL) {
        ingot_free_fourier_plan(plan);
        return NULL;
    }
    float *own = plan->memory, *next = own + OWN_ROOTS;
    for (int i = 0; i < ODD_COUNT; i++)
        for (int k = 0; k < ODD_RADICES[i]; k++) {
            float *root = own + 2 * (ODD_RADICES[i] * ODD_RADICES[i] + k);
            ingot_set_root(root, root + 1, k, ODD_RADICES[i]);
        }
    if (!ingot_fill_part(&plan->parts[0], own) || !ingot_fill_part(&plan->parts[1], own)) {
        ingot_free_fourier_plan(plan);
        return NULL;
    }
    if (plan->is_split) {
        int64_t columns = length / rows;
        plan->cross_real = next;
        plan->cross_imag = next + length;
        next += 2 * length;
        for (int64_t i = 0; i < length; i++)
            ingot_set_root(&plan->cross_real[i], &plan->cross_imag[i], i / columns * (i % columns), length);
    }
    if (is_real) {
        plan->halves_real = next;
        plan->halves_imag = next + length;
        for (int64_t i = 0; i < length; i++) {
            float re, im;
            ingot_set_root(&re, &im, i, 2 * length);
            plan->halves_real[i] = im / 2;
            plan->halves_imag[i] = -re / 2;
        }
    }
    return plan;
}

void ingot_free_fourier_plan(ingot_fourier_plan *plan) {
    if (plan == NULL)
        return;
    ingot_free_part(&plan->parts[0]);
    ingot_free_part(&plan->parts[1]);
    free(plan->memory);
    free(plan);
}
