/* Memory for arrays: 64-byte aligned, recycled blocks. All functions may be called from any thread, with or without
 * the GIL, and in a forked child. */
#ifndef INGOT_ALLOCATOR_H
#define INGOT_ALLOCATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define INGOT_ALIGNMENT 64

/* NULL if the memory is not available; size 0 gives a distinct block. */
void *ingot_allocate(size_t size);
void *ingot_allocate_zeroed(size_t size);

/* Keeps the contents; on failure, returns NULL and leaves the old block as it was. */
void *ingot_reallocate(void *block, size_t size);

/* `size` is the requested size, but is not trusted: NumPy may free an array with a different size than it allocated,
 * so blocks record their own. NULL is allowed. */
void ingot_release(void *block, size_t size);

/* Usable bytes at `block`: the requested size, rounded up. */
size_t ingot_usable_size(void *block);

/* Active: bytes in blocks in use. Peak: the maximum of active since the last reset. Cache: bytes in whole blocks
 * kept for reuse. */
size_t ingot_active_memory(void);
size_t ingot_peak_memory(void);
size_t ingot_cache_memory(void);
void ingot_reset_peak_memory(void);
void ingot_clear_cache(void);

/* Both return the previous limit. */
size_t ingot_set_cache_limit(size_t bytes);
size_t ingot_set_memory_limit(size_t bytes);

/* Whether every block is filled with 0xFF bytes before it is returned, so that reads of uninitialised memory give
 * reproducibly wrong results. INGOT_POISON_MEMORY=1 turns it on at startup. Returns the previous setting. */
bool ingot_set_memory_poison(bool poisons);

/* Upper bound on what can ever be allocated: larger requests fail at once. */
size_t ingot_memory_reach(void);
size_t ingot_memory_limit(void); /* the value from ingot_set_memory_limit */

#endif
