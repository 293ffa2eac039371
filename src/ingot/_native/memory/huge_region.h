/* Regions of huge pages that blocks of less than MIN_HUGE_PAGE_BYTES share. Weights of a model are mostly such blocks,
 * and reading them through pages of 4 KiB takes nearly twice as long. */
#ifndef INGOT_HUGE_REGION_H
#define INGOT_HUGE_REGION_H

#include <stddef.h>

typedef struct HugeRegion HugeRegion;

/* Fresh, zeroed memory that starts at a multiple of INGOT_LARGE_ALIGNMENT, and its region; NULL if a block of `size`
 * bytes is better mapped separately, or if the system refuses. Sets `mapped` to the bytes taken. */
char *ingot_take_from_region(size_t size, size_t *mapped, HugeRegion **region);

/* Returns memory; a region that nothing uses is unmapped. */
void ingot_return_to_region(HugeRegion *region, char *address, size_t mapped);

/* Around fork. The allocator's lock is taken before this one. */
void ingot_lock_regions(void);
void ingot_unlock_regions(void);

/* Memory that starts at a multiple of `alignment`; NULL if the system refuses. */
char *ingot_map_aligned(size_t bytes, size_t alignment);

#define INGOT_HUGE_PAGE ((size_t)2 << 20)

#endif
