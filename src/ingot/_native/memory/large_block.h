/* Large blocks of the allocator: separate mappings or parts of huge regions, described in a side table instead of a header, so
 * that a block of 2^n bytes takes 2^n bytes. The table belongs to the allocator: call these functions with its lock held. */
#ifndef INGOT_LARGE_BLOCK_H
#define INGOT_LARGE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

#include "memory/huge_region.h"

/* Every large block starts at a multiple of this. */
#define INGOT_LARGE_ALIGNMENT ((size_t)256 << 10)

typedef struct LargeBlock {
    char *address;
    size_t size;
    size_t mapped;
    HugeRegion *region;                 /* NULL: a mapping of its own */
    struct LargeBlock *next, *previous; /* in the bin of its size class, while free */
    struct LargeBlock *newer, *older;   /* in the list by age, while free; `newer` also links blocks to unmap */
} LargeBlock;

/* Fresh, zeroed memory; NULL if the system refuses. */
LargeBlock *ingot_map_block(size_t size);

/* Unmaps a list of blocks linked by `newer`. */
void ingot_unmap_blocks(LargeBlock *first);

/* The table. Adding a block fails only if there is no memory for the table itself. */
bool ingot_remember_block(LargeBlock *block);
void ingot_forget_block(const LargeBlock *block);
LargeBlock *ingot_find_block(const void *address);

#endif
