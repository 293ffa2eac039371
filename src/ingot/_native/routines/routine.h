/* Routines: sequences of calls of C functions and of LAPACK that compute an op without Python, as instructions of programs.
 *
 * The operands of a call are in the routine's arguments (contiguous inputs, then results), its constants, scratch memory that
 * all of its calls share, or scratch memory that each thread has. `graph/numerics/routines.py` builds routines. */
#ifndef INGOT_ROUTINE_H
#define INGOT_ROUTINE_H

#include "native.h"

enum { MAX_ROUTINE_OPERANDS = 14, MAX_ROUTINE_NUMBERS = 10 };

/* What a call and a routine return. Where one failed, for instance because a matrix is singular, the op's `evaluate` rule
 * decides what happens; the values are those of loops (loop.h). */
enum { ROUTINE_DONE = 0, ROUTINE_INTERRUPTED = -1, ROUTINE_FAILED = -2 };

/* An operand: an offset in the memory of a slot, or slot -1 for none. */
typedef struct {
    int slot;
    int64_t offset, stride; /* in bytes; stride: from matrix to matrix of a stack */
} RoutineOperand;

typedef struct {
    char *const *slots; /* the arguments, the constants, shared and per-thread scratch memory */
    int thread_slot;
    int64_t thread_bytes; /* of each thread */
} RoutineMemory;

typedef struct RoutineCall {
    int (*run)(const struct RoutineCall *call, const RoutineMemory *memory);
    int operand_count;
    RoutineOperand operands[MAX_ROUTINE_OPERANDS];
    int64_t numbers[MAX_ROUTINE_NUMBERS];
    void *address;   /* of a function, or of the plan of a Fourier transform */
    PyObject *owner; /* of the plan, or NULL */
} RoutineCall;

/* The address of an operand of a thread, for a matrix of a stack; NULL if there is none. */
static inline char *ingot_operand_of(const RoutineCall *call, const RoutineMemory *memory, int operand, int64_t matrix,
                                     int thread) {
    const RoutineOperand *p = &call->operands[operand];
    if (p->slot < 0)
        return NULL;
    char *start = memory->slots[p->slot] + p->offset;
    return start + (p->slot == memory->thread_slot ? thread * memory->thread_bytes : matrix * p->stride);
}

static inline char *ingot_operand(const RoutineCall *call, const RoutineMemory *memory, int operand) {
    return ingot_operand_of(call, memory, operand, 0, 0);
}

/* The functions that calls run; routine.c has the number of operands and of integer parameters of each. */
int ingot_call_copy(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_unit(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_convert(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_finite(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_nonsingular(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_dense(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_lanes(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_definite(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_lapack(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_positions(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_fourier(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_chirp(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_scan(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_search(const RoutineCall *call, const RoutineMemory *memory);

/* Whether the call "lapack" takes functions of so many operands. */
bool ingot_can_call(Py_ssize_t operands);

/* The plan in a capsule that fourier_plan made, or NULL with an exception. */
void *ingot_fourier_plan_of(PyObject *capsule);

extern PyTypeObject *Routine_Type;
Py_ssize_t ingot_routine_arguments(const PyObject *routine);
/* Runs a routine with or without the GIL; ROUTINE_INTERRUPTED with an exception. */
int ingot_run_routine(const PyObject *routine, char *const *arguments);

#endif
