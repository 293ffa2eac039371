/* Memory for arrays: 64-byte aligned blocks, recycled. Every function may be called from any thread, with or without
 * the GIL, and in a forked child. */
#ifndef INGOT_ALLOCATOR_H
#define INGOT_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INGOT_ALIGNMENT 64

/* NULL if the memory cannot be had; a size of 0 gives a block of its own. */
void *ingot_allocate(size_t size);
void *ingot_allocate_zeroed(size_t size);

/* Keeps the contents; NULL leaves the old block as it was. */
void *ingot_reallocate(void *block, size_t size);

/* `size` is what was asked for, but is not relied on: NumPy may free an array with another size than it was made with,
 * hence a block knows its own. NULL is allowed. */
void ingot_release(void *block, size_t size);

/* Bytes that may be used at `block`: what was asked for, rounded up. */
size_t ingot_usable_size(void *block);

/* Active: bytes in blocks handed out. Peak: the largest value of active since the last reset. Cache: bytes in whole
 * blocks kept for reuse. */
size_t ingot_active_memory(void);
size_t ingot_peak_memory(void);
size_t ingot_cache_memory(void);
void ingot_reset_peak_memory(void);
void ingot_clear_cache(void);

/* Both return the limit that held before. */
size_t ingot_set_cache_limit(size_t bytes);
size_t ingot_set_memory_limit(size_t bytes);

/* Whether every block is filled with bytes of 0xFF before it is handed out, so that what reads memory that nobody wrote
 * gives a result that is wrong each time. INGOT_POISON_MEMORY=1 switches it on at the start. Returns the old setting. */
bool ingot_set_memory_poison(bool poisons);

/* No more than this can ever be handed out: a request beyond it fails at once. */
size_t ingot_memory_reach(void);
size_t ingot_memory_limit(void); /* as ingot_set_memory_limit set it */

#endif
