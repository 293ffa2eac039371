/* Cholesky factors of stacks of small matrices, one matrix per vector lane, on the threads of the pool. */
#include "routines/routine.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "memory/allocator.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "tuning.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast,no-math-errno") /* FMA where available, and vectors of square roots */
#endif

#define TILE 4

typedef struct {
    const char *from;
    char *to;
    int64_t count, length, padded; /* padded: the next multiple of TILE */
    int64_t lanes;
    bool upper; /* the upper triangles are read and written */
    char *scratch;
    size_t scratch_size; /* of each thread */
    atomic_bool failed;
} Factors;

#define NUMBER float
#define NAME(name) name##_float
#define ROOT(x) sqrtf(x)
#undef LANES
#include "matrices/cholesky_loop.h"

#define NUMBER double
#define NAME(name) name##_double
#define ROOT(x) sqrt(x)
#include "matrices/cholesky_loop.h"

static void factorize_some(void *context, int64_t begin, int64_t end, int thread) {
    Factors *f = context;
    char *scratch = f->scratch + (size_t)thread * f->scratch_size;
    for (int64_t block = begin; block < end && !atomic_load_explicit(&f->failed, memory_order_relaxed); block++) {
        int64_t first = block * f->lanes, count = f->count - first < f->lanes ? f->count - first : f->lanes;
        bool is_definite = f->lanes == 64 / (int64_t)sizeof(float) ? factorize_matrices_float(f, first, count, scratch)
                                                                   : factorize_matrices_double(f, first, count, scratch);
        if (!is_definite)
            atomic_store_explicit(&f->failed, true, memory_order_relaxed);
    }
}

/* numbers: bytes of an element, matrices, rows, whether the upper triangles are read and written. Fails if a matrix is not
 * positive definite. */
int ingot_call_definite(const RoutineCall *call, const RoutineMemory *memory) {
    int64_t item = call->numbers[0], n = call->numbers[2], padded = (n + TILE - 1) / TILE * TILE;
    Factors f = {
        .from = ingot_operand(call, memory, 0),
        .to = ingot_operand(call, memory, 1),
        .count = call->numbers[1],
        .length = n,
        .padded = padded,
        .lanes = 64 / item,
        .upper = call->numbers[3] != 0,
        .scratch_size = (size_t)(padded * padded) * 64,
    };
    atomic_init(&f.failed, false);
    int64_t blocks = (f.count + f.lanes - 1) / f.lanes, grain = 1 + MIN_FACTORED_THREAD_WORK / (n * n * n);
    size_t size = (size_t)ingot_num_threads() * f.scratch_size;
    f.scratch = ingot_allocate(size);
    if (f.scratch == NULL)
        return ROUTINE_INTERRUPTED;
    int64_t done = ingot_interruptible_for(factorize_some, &f, 0, blocks, grain, grain * FIRST_BLOCK_GRAINS);
    ingot_release(f.scratch, size);
    if (done < blocks)
        return ROUTINE_INTERRUPTED;
    return atomic_load(&f.failed) ? ROUTINE_FAILED : ROUTINE_DONE;
}
