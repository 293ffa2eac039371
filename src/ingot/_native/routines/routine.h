/* Routines: sequences of calls of C functions and of LAPACK that compute an op without Python, as instructions of programs.
 *
 * A routine works on its arguments, contiguous operands and then results, on constants, on memory that its calls share and
 * on memory that each thread has. `graph/numerics/routines.py` builds routines. */
#ifndef INGOT_ROUTINE_H
#define INGOT_ROUTINE_H

#include "native.h"

enum { MAX_ROUTINE_PLACES = 14, MAX_ROUTINE_NUMBERS = 10 };

/* What a call and a routine return. Where one failed, for instance because a matrix is singular, the op's `evaluate` rule
 * decides what happens; the values are those of loops (loop.h). */
enum { ROUTINE_DONE = 0, ROUTINE_INTERRUPTED = -1, ROUTINE_FAILED = -2 };

/* An address in the memory of a slot; -1: none. */
typedef struct {
    int slot;
    int64_t offset, step; /* step: bytes from matrix to matrix, where a call works on several */
} RoutinePlace;

typedef struct {
    char *const *slots; /* the arguments, constants, shared memory, memory of the threads */
    int thread_slot;
    int64_t thread_bytes; /* of each thread */
} RoutineMemory;

typedef struct RoutineCall {
    int (*run)(const struct RoutineCall *call, const RoutineMemory *memory);
    int place_count;
    RoutinePlace places[MAX_ROUTINE_PLACES];
    int64_t numbers[MAX_ROUTINE_NUMBERS];
    void *address;  /* of a function, or of the plan of a Fourier transform */
    PyObject *held; /* what owns it, or NULL */
} RoutineCall;

/* The address of a place for a matrix of a stack, as a thread sees it; NULL: none. */
static inline char *ingot_place_of(const RoutineCall *call, const RoutineMemory *memory, int place, int64_t matrix,
                                   int thread) {
    const RoutinePlace *p = &call->places[place];
    if (p->slot < 0)
        return NULL;
    char *start = memory->slots[p->slot] + p->offset;
    return start + (p->slot == memory->thread_slot ? thread * memory->thread_bytes : matrix * p->step);
}

static inline char *ingot_place(const RoutineCall *call, const RoutineMemory *memory, int place) {
    return ingot_place_of(call, memory, place, 0, 0);
}

/* Calls, each with the number of its places and numbers in routine.c. */
int ingot_call_copy(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_unit(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_convert(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_finite(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_regular(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_dense(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_lanes(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_definite(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_lapack(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_positions(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_fourier(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_chirp(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_scan(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_sort(const RoutineCall *call, const RoutineMemory *memory);
int ingot_call_search(const RoutineCall *call, const RoutineMemory *memory);

/* The plan in a capsule that fourier_plan made, or NULL with an exception. */
void *ingot_fourier_plan_of(PyObject *capsule);

extern PyTypeObject *Routine_Type;
Py_ssize_t ingot_routine_arguments(const PyObject *routine);
/* Runs a routine with or without the GIL; ROUTINE_INTERRUPTED with an exception. */
int ingot_run_routine(const PyObject *routine, char *const *arguments);

#endif
