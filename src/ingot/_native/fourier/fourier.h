/* Fourier transforms of rows of float32 or complex64 numbers, on the pool's threads. */
#ifndef INGOT_FOURIER_H
#define INGOT_FOURIER_H

#include <stdbool.h>
#include <stdint.h>

#include "fourier/plan.h"

/* The real kinds have 2 * plan->length real numbers on one side and plan->length + 1 complex ones on the other. */
typedef enum { FOURIER_FORWARD, FOURIER_BACKWARD, FOURIER_REAL_FORWARD, FOURIER_REAL_BACKWARD } ingot_fourier_kind;

typedef struct {
    const ingot_fourier_plan *plan;
    ingot_fourier_kind kind;
    int64_t before, behind; /* rows run along the middle one of three axes of contiguous arrays */
    const float *from;
    float *to;
    float scale;
} ingot_fourier;

/* Those of this machine's vectors, or of the widest that have at most `most`, 4 or more. */
int64_t ingot_fourier_lanes(int64_t most);

/* False if memory is not available, or with an exception set, if a signal stopped it. */
bool ingot_transform(const ingot_fourier *transform);

#endif
