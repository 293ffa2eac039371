/* The thread pool: one loop spread over the cores.
 *
 * The calling thread takes part and the call returns when all is done. A call from inside a loop that is already
 * spread, and a call while another thread's loop is being spread, runs on the calling thread alone: the cores are busy
 * then, and waiting could deadlock. May be called with or without the GIL; `body` must not use Python. */
#ifndef INGOT_POOL_H
#define INGOT_POOL_H

#include <stdint.h>

#define INGOT_MAXIMUM_THREADS 1024

/* Works on begin <= i < end. `thread` is below ingot_num_threads() as it was when the loop started; no two calls
 * of `body` that run at the same time in one loop have the same. */
typedef void (*ingot_loop_body)(void *context, int64_t begin, int64_t end, int thread);

/* Calls `body` on chunks that cover 0 <= i < count, each of at least `grain` (or all of `count`, if that is less). */
void ingot_parallel_for(ingot_loop_body body, void *context, int64_t count, int64_t grain);

/* The same for begin <= i < end. */
void ingot_parallel_range(ingot_loop_body body, void *context, int64_t begin, int64_t end, int64_t grain);

int ingot_num_threads(void);
void ingot_set_num_threads(int threads); /* 1 to INGOT_MAXIMUM_THREADS */

/* For the end of the process; loops that are run afterwards use the calling thread only. */
void ingot_stop_pool(void);

#endif
