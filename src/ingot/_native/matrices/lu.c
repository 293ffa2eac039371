/* LU factors of stacks of small matrices, and what follows from them, one matrix per vector lane, on the threads of the pool.
 */
#include "routines/routine.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "matrices/determinant.h"
#include "matrices/positions.h"
#include "memory/allocator.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "tuning.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") /* FMA where available */
#endif

#define TILE 4

typedef enum { FACTORS, SOLUTIONS, DETERMINANTS } Result;

typedef struct {
    Result result;
    const char *from, *rhs; /* rhs: of equations; NULL: unit matrices */
    char *to, *logarithms;  /* logarithms: of determinants, whose signs are in `to`; NULL: not wanted */
    uint32_t *pivots, *positions;
    int64_t count, rows, columns, rhs_columns; /* rhs_columns: columns of the right-hand sides */
    int64_t lanes, stride;                     /* stride: of rows in the lanes */
    char *scratch;
    size_t scratch_size; /* of each thread */
    atomic_bool singular;
} Systems;

#define NUMBER float
#define INTEGER int32_t
#define MAGNITUDE INT32_MAX
#define NAME(name) name##_float
#undef LANES
#include "matrices/lu_loop.h"

#define NUMBER double
#define INTEGER int64_t
#define MAGNITUDE INT64_MAX
#define NAME(name) name##_double
#include "matrices/lu_loop.h"

static void process_some(void *context, int64_t begin, int64_t end, int thread) {
    Systems *s = context;
    char *scratch = s->scratch + (size_t)thread * s->scratch_size;
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * s->lanes, count = s->count - first < s->lanes ? s->count - first : s->lanes;
        bool is_nonsingular = s->lanes == 64 / (int64_t)sizeof(float) ? process_matrices_float(s, first, count, scratch)
                                                                      : process_matrices_double(s, first, count, scratch);
        if (!is_nonsingular)
            atomic_store_explicit(&s->singular, true, memory_order_relaxed);
    }
}

enum { FROM, RHS, TO, LOGARITHMS, PIVOTS, POSITIONS }; /* operands */

/* numbers: the result, bytes of an element, matrices, rows, columns, columns of the right-hand sides */
int ingot_call_lanes(const RoutineCall *call, const RoutineMemory *memory) {
    const int64_t *n = call->numbers;
    Systems s = {
        .result = (Result)n[0],
        .from = ingot_operand(call, memory, FROM),
        .rhs = ingot_operand(call, memory, RHS),
        .to = ingot_operand(call, memory, TO),
        .logarithms = ingot_operand(call, memory, LOGARITHMS),
        .pivots = (uint32_t *)(void *)ingot_operand(call, memory, PIVOTS),
        .positions = (uint32_t *)(void *)ingot_operand(call, memory, POSITIONS),
        .count = n[2],
        .rows = n[3],
        .columns = n[4],
        .rhs_columns = n[5],
        .lanes = 64 / n[1],
    };
    int64_t width = s.columns + s.rhs_columns;
    s.stride = width | 1; /* columns whose elements are an even number of cache lines apart share few sets of L1 */
    s.scratch_size = (size_t)(s.rows * (s.stride + 2) + s.columns) * 64;
    atomic_init(&s.singular, false);
    int64_t blocks = (s.count + s.lanes - 1) / s.lanes;
    int64_t grain = 1 + MIN_FACTORED_THREAD_WORK / (s.rows * s.columns * width);
    size_t size = (size_t)ingot_num_threads() * s.scratch_size;
    s.scratch = ingot_allocate(size);
    if (s.scratch == NULL)
        return ROUTINE_INTERRUPTED;
    int64_t done = ingot_interruptible_for(process_some, &s, 0, blocks, grain, grain * FIRST_BLOCK_GRAINS);
    ingot_release(s.scratch, size);
    if (done < blocks)
        return ROUTINE_INTERRUPTED;
    return s.result == SOLUTIONS && atomic_load(&s.singular) ? ROUTINE_FAILED : ROUTINE_DONE;
}
