/* Long computations that Ctrl-C can stop: between blocks, the calling thread checks for a pending Python signal.
 *
 * A signal handler is Python code of the main thread, so it runs when that thread polls, with the GIL: at most once
 * every POLL_NANOSECONDS, which has no measurable cost. If the handler does not raise, the computation continues. */
#ifndef INGOT_INTERRUPT_H
#define INGOT_INTERRUPT_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "threads/pool.h"

/* Starts the polling interval of this thread now. */
void ingot_start_polling(void);

/* Whether this thread must stop its work; if so, an exception is set. For Python threads, with or without the GIL. */
bool ingot_should_stop(void);

/* Like ingot_parallel_for, but starts at `begin` and runs in blocks of about BLOCK_NANOSECONDS, the first of `first`
 * iterations. Returns the end of the completed range: `count`, or less if ingot_should_stop was true. Nothing past
 * it has run. */
int64_t ingot_interruptible_for(ingot_loop_body body, void *context, int64_t begin, int64_t count, int64_t grain,
                                int64_t first);

/* For loops whose threads claim work themselves: whether to stop claiming. `thread` is the loop body's argument;
 * number 0 is the calling thread, which polls for signals and tells the others. */
static inline bool ingot_is_stopped(atomic_bool *stopped, int thread) {
    if (thread == 0 && ingot_should_stop())
        atomic_store_explicit(stopped, true, memory_order_relaxed);
    return atomic_load_explicit(stopped, memory_order_relaxed);
}

/* Sets whether this thread evaluates in the background, where work also stops when the interpreter shuts down.
 * Returns the previous setting. */
bool ingot_set_background(bool background);

#endif
