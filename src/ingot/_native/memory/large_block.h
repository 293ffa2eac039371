/* Large blocks of the allocator: mappings of their own, described in a table beside them rather than in a header, so
 * that a block of 2^n bytes takes 2^n bytes. The table is the allocator's: call its functions with the lock held. */
#ifndef INGOT_LARGE_BLOCK_H
#define INGOT_LARGE_BLOCK_H

#include <stdbool.h>
#include <stddef.h>

/* Every large block starts at a multiple of this. */
#define INGOT_LARGE_ALIGNMENT ((size_t)256 << 10)

typedef struct LargeBlock {
    char *address;
    size_t size;
    size_t mapped;
    struct LargeBlock *next, *previous; /* in the bin of its class, while free */
    struct LargeBlock *newer, *older;   /* in the list by age, while free; `newer` also links blocks to unmap */
} LargeBlock;

/* Fresh memory, all zeros; NULL if the system refuses. */
LargeBlock *ingot_map_block(size_t size);

/* Gives back a list of blocks linked by `newer`. */
void ingot_unmap_blocks(LargeBlock *first);

/* The table. Remembering fails only when there is no memory left for it. */
bool ingot_remember_block(LargeBlock *block);
void ingot_forget_block(const LargeBlock *block);
LargeBlock *ingot_find_block(const void *address);

#endif
