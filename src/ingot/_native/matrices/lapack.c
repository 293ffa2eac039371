/* Calls of routines of LAPACK and BLAS by address, for each matrix of a stack, on the threads of the pool. */
#include "routines/routine.h"

#include <stdatomic.h>

#include "matrices/positions.h"
#include "threads/interrupt.h"
#include "tuning.h"

typedef struct {
    const RoutineCall *call;
    const RoutineMemory *memory;
    atomic_bool failed;
} Calls;

#define P void *
static void call_function(void *function, int count, void **a) {
    switch (count) {
    case 5:
        ((void (*)(P, P, P, P, P))function)(a[0], a[1], a[2], a[3], a[4]);
        break;
    case 6:
        ((void (*)(P, P, P, P, P, P))function)(a[0], a[1], a[2], a[3], a[4], a[5]);
        break;
    case 8:
        ((void (*)(P, P, P, P, P, P, P, P))function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
        break;
    case 9:
        ((void (*)(P, P, P, P, P, P, P, P, P))function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
        break;
    case 11:
        ((void (*)(P, P, P, P, P, P, P, P, P, P, P))function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9],
                                                              a[10]);
        break;
    default: /* 14 */
        ((void (*)(P, P, P, P, P, P, P, P, P, P, P, P, P, P))function)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8],
                                                                       a[9], a[10], a[11], a[12], a[13]);
    }
}
#undef P

bool ingot_can_call(Py_ssize_t operands) {
    return operands == 5 || operands == 6 || operands == 8 || operands == 9 || operands == 11 || operands == 14;
}

static void call_some(void *context, int64_t begin, int64_t end, int thread) {
    Calls *calls = context;
    const RoutineCall *call = calls->call;
    int64_t info = call->numbers[2];
    for (int64_t i = begin; i < end; i++) {
        void *addresses[MAX_ROUTINE_OPERANDS] = {NULL};
        for (int k = 0; k < call->operand_count; k++)
            addresses[k] = ingot_operand_of(call, calls->memory, k, i, thread);
        call_function(call->address, call->operand_count, addresses);
        if (info >= 0 && *(int *)addresses[info] != 0)
            atomic_store_explicit(&calls->failed, true, memory_order_relaxed);
    }
}

/* numbers: matrices; the work for each, or 0 if threads of the library share it; which operand is the error code, or -1 */
int ingot_call_lapack(const RoutineCall *call, const RoutineMemory *memory) {
    int64_t count = call->numbers[0], work = call->numbers[1];
    Calls calls = {.call = call, .memory = memory};
    atomic_init(&calls.failed, false);
    int64_t grain = work == 0 ? count : 1 + MIN_FACTORED_THREAD_WORK / work;
    int64_t first = work == 0 ? 1 : grain * FIRST_BLOCK_GRAINS;
    if (ingot_interruptible_for(call_some, &calls, 0, count, grain, first) < count)
        return ROUTINE_INTERRUPTED;
    return atomic_load(&calls.failed) ? ROUTINE_FAILED : ROUTINE_DONE;
}

/* Converts LAPACK's 1-based pivots to 0-based ones, and finds the position of each row after all exchanges.
 * numbers: matrices, pivots of each, rows of each; operands: LAPACK's pivots, pivots, positions */
int ingot_call_positions(const RoutineCall *call, const RoutineMemory *memory) {
    int64_t rank = call->numbers[1], rows = call->numbers[2];
    for (int64_t i = 0; i < call->numbers[0]; i++) {
        const int *found = (const int *)(void *)ingot_operand_of(call, memory, 0, i, 0);
        uint32_t *pivots = (uint32_t *)(void *)ingot_operand_of(call, memory, 1, i, 0);
        for (int64_t k = 0; k < rank; k++) {
            bool is_row = found[k] > k && found[k] <= rows; /* among NaN, no element is the largest */
            pivots[k] = is_row ? (uint32_t)(found[k] - 1) : (uint32_t)k;
        }
        ingot_set_positions(pivots, rank, (uint32_t *)(void *)ingot_operand_of(call, memory, 2, i, 0), rows);
    }
    return ROUTINE_DONE;
}
