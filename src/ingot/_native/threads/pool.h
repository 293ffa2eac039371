/* The thread pool: runs one loop in parallel over the cores.
 *
 * The calling thread takes part, and the call returns when all iterations are done. Inside a parallel loop, and
 * while another thread runs one, a loop runs on the calling thread alone: the cores are busy then, and waiting could
 * deadlock. May be called with or without the GIL; `body` must not use Python. */
#ifndef INGOT_POOL_H
#define INGOT_POOL_H

#include <stdint.h>

#define INGOT_MAXIMUM_THREADS 1024

/* Runs the iterations begin <= i < end. `thread` is less than ingot_num_threads() at the start of the loop; no two
 * concurrent calls of `body` in one loop have the same `thread`. */
typedef void (*ingot_loop_body)(void *context, int64_t begin, int64_t end, int thread);

/* Calls `body` on chunks that cover 0 <= i < count, each of at least `grain` iterations (or all of `count`, if that
 * is less). */
void ingot_parallel_for(ingot_loop_body body, void *context, int64_t count, int64_t grain);

/* The same for begin <= i < end. */
void ingot_parallel_range(ingot_loop_body body, void *context, int64_t begin, int64_t end, int64_t grain);

#define MAX_READ_AHEAD 3

/* Memory that a later loop reads, a contiguous part in each thread. */
typedef struct {
    const char *begin;
    int64_t bytes;
} ReadAhead;

/* Until their next loop, threads that would spin prefetch their parts of up to MAX_READ_AHEAD areas. The memory may be gone
 * by then: prefetching never faults. */
void ingot_read_ahead(const ReadAhead *areas, int count);

/* The number of threads that loops of the calling thread use. */
int ingot_num_threads(void);
/* Fixes that number, for code that allocates memory for each thread: the setting may change while loops run, in another thread
 * or in a signal handler. 0: the setting again. Returns the argument of the call before. */
int ingot_pin_threads(int threads);

/* The setting. */
int ingot_wanted_threads(void);
void ingot_set_num_threads(int threads); /* 1 to INGOT_MAXIMUM_THREADS */

/* Called at process exit; later loops run on the calling thread alone. */
void ingot_stop_pool(void);

#endif
