/* Loops around programs (run_loop.c), and those that are instructions of other programs (nested.c). */
#ifndef INGOT_LOOP_H
#define INGOT_LOOP_H

#include "programs/program.h"

/* A loop around a program. Carried values alternate between the buffers `first` and `second`. */
typedef struct {
    Program *program;
    char *const *inputs, *const *first, *const *second; /* addresses; of outputs that are not carried `first` holds them */
    const Py_ssize_t *slice_bytes;                      /* of each sliced input, then of each stacked output */
    Py_ssize_t carries, slices;
    Py_ssize_t length;    /* -1: until the flag is clear */
    Py_ssize_t invariant; /* instructions, the first ones, that run in the first step only */
    bool reverse, has_flag;
    bool all_small; /* iterations are too short to poll for signals in each */
    /* in the table: */
    struct Call *calls;
    struct Moving *moving;
    struct Alternating *alternating;
    Py_ssize_t moving_count, alternating_count;
} Loop;

/* The bytes of the table of a loop around a program: the addresses of all arguments. */
size_t ingot_loop_table_bytes(const Program *self);
/* Writes the addresses of the first step to the table. */
void ingot_loop_begin(Loop *loop, void *table, char *arena);
/* Instead of a number of steps: a check's flag is set or a routine failed, and the caller runs the same steps from Python; or
 * the loop was interrupted and an exception is set. */
enum { LOOP_FAILED = -2, LOOP_INTERRUPTED = -1 };
/* Whether ingot_loop_repeat may run it, which needs no table. */
bool ingot_loop_repeats(const Loop *loop);
/* Runs the steps by the program's RepeatFunction; the result is that of ingot_loop_run. */
Py_ssize_t ingot_loop_repeat(const Loop *loop);
/* The number of steps that ran. Called without the GIL. */
Py_ssize_t ingot_loop_run(const Loop *loop, bool is_timed);

#endif
