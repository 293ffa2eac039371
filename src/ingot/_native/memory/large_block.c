/* Mapping large blocks and looking them up by address. See large_block.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory/large_block.h"
#include "tuning.h"

#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>

#define SYSTEM_PAGE ((size_t)64 << 10) /* the largest page size of Linux on any architecture */

/* ---- mapping ---- */

/* Separate mappings below MIN_HUGE_PAGE_BYTES are whole multiples of the alignment: untouched pages cost nothing, and the
 * kernel merges adjacent mappings, of which it allows 65530. */
LargeBlock *ingot_map_block(size_t size) {
    LargeBlock *block = malloc(sizeof *block);
    if (block == NULL) {
        return NULL;
    }
    bool huge = size >= MIN_HUGE_PAGE_BYTES;
    block->size = size;
    block->region = NULL;
    block->address = ingot_take_from_region(size, &block->mapped, &block->region);
    if (block->address != NULL) {
        return block;
    }
    size_t unit = huge ? SYSTEM_PAGE : INGOT_LARGE_ALIGNMENT;
    block->mapped = (size + unit - 1) / unit * unit;
    block->address = ingot_map_aligned(block->mapped, huge ? INGOT_HUGE_PAGE : INGOT_LARGE_ALIGNMENT);
    if (block->address == NULL) {
        free(block);
        return NULL;
    }
#ifdef MADV_HUGEPAGE
    if (huge) {
        madvise(block->address, block->mapped, MADV_HUGEPAGE);
    }
#endif
    return block;
}

void ingot_unmap_blocks(LargeBlock *evicted) {
    while (evicted != NULL) {
        LargeBlock *next = evicted->newer;
        if (evicted->region != NULL) {
            ingot_return_to_region(evicted->region, evicted->address, evicted->mapped);
        } else {
            munmap(evicted->address, evicted->mapped);
        }
        free(evicted);
        evicted = next;
    }
}

/* ---- the table: open addressing, at most half full ---- */

static struct {
    LargeBlock **slots;
    size_t size; /* a power of two, or 0 before the first block */
    size_t used;
} table;

static size_t table_slot(const void *address) {
    return (((uintptr_t)address / INGOT_LARGE_ALIGNMENT) * UINT64_C(0x9E3779B97F4A7C15) >> 32) & (table.size - 1);
}

LargeBlock *ingot_find_block(const void *address) {
    if (table.size == 0) {
        return NULL;
    }
    size_t slot = table_slot(address);
    while (table.slots[slot] != NULL && table.slots[slot]->address != address) {
        slot = (slot + 1) & (table.size - 1);
    }
    return table.slots[slot];
}

static void table_place(LargeBlock *block) {
    size_t slot = table_slot(block->address);
    while (table.slots[slot] != NULL) {
        slot = (slot + 1) & (table.size - 1);
    }
    table.slots[slot] = block;
}

bool ingot_remember_block(LargeBlock *block) {
    if (2 * (table.used + 1) > table.size) {
        LargeBlock **old = table.slots;
        size_t old_size = table.size;
        size_t size = old_size == 0 ? 256 : 2 * old_size;
        LargeBlock **slots = calloc(size, sizeof *slots);
        if (slots == NULL) {
            return false;
        }
        table.slots = slots;
        table.size = size;
        for (size_t i = 0; i < old_size; i++) {
            if (old[i] != NULL) {
                table_place(old[i]);
            }
        }
        free(old);
    }
    table_place(block);
    table.used++;
    return true;
}

void ingot_forget_block(const LargeBlock *block) {
    size_t hole = table_slot(block->address);
    while (table.slots[hole] != block) {
        hole = (hole + 1) & (table.size - 1);
    }
    table.slots[hole] = NULL;
    table.used--;
    /* Entries after the hole may have been displaced past it, so each is reinserted. */
    for (size_t slot = (hole + 1) & (table.size - 1); table.slots[slot] != NULL; slot = (slot + 1) & (table.size - 1)) {
        LargeBlock *moved = table.slots[slot];
        table.slots[slot] = NULL;
        table_place(moved);
    }
}
