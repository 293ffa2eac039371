/* Long work that Ctrl-C ends: between its blocks the thread that called looks whether a signal waits for Python.
 *
 * A signal's handler is Python code of the main thread, so it runs when that thread asks for it, with the GIL: no more than
 * every POLL_NANOSECONDS, which costs nothing that can be measured. A handler that does not raise leaves the work alone. */
#ifndef INGOT_INTERRUPT_H
#define INGOT_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "threads/pool.h"

/* The first look of this thread is due after the usual time from now on. */
void ingot_start_polling(void);

/* Whether the work of this thread must end; if so, an exception is set. For threads of Python, with or without the GIL. */
bool ingot_should_stop(void);

/* As ingot_parallel_for, from `begin` on, in blocks of about BLOCK_NANOSECONDS; the first has `first` iterations. Returns
 * where it ended: `count`, or less if ingot_should_stop said so. Everything before that is done and nothing behind it. */
int64_t ingot_interruptible_for(ingot_loop_body body, void *context, int64_t begin, int64_t count, int64_t grain,
                                int64_t first);

/* For loops whose threads take work by themselves: whether they should take no more. `thread` is what the loop body is told;
 * number 0 is the thread that called, which looks for signals and tells the others. */
static inline bool ingot_is_stopped(atomic_bool *stopped, int thread) {
    if (thread == 0 && ingot_should_stop())
        atomic_store_explicit(stopped, true, memory_order_relaxed);
    return atomic_load_explicit(stopped, memory_order_relaxed);
}

/* Whether this thread evaluates in the background: its work ends, too, when the interpreter does. Returns what was before. */
bool ingot_set_background(bool background);

#endif
