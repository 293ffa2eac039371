/* Regions of huge pages: 64 slots each, which a word of bits describes. See huge_region.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory/huge_region.h"
#include "memory/large_block.h"
#include "tuning.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#define SLOT INGOT_LARGE_ALIGNMENT
#define SLOTS 64u
#define REGION (SLOTS * SLOT)

_Static_assert(MIN_HUGE_PAGE_BYTES <= REGION, "a region has room for each block that shares huge pages");

struct HugeRegion {
    char *address;
    uint64_t used; /* a bit for each slot */
    HugeRegion *next, *previous;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static HugeRegion *regions; /* those that blocks are in */
static size_t bytes_before; /* in blocks that were mapped before there were regions */

void ingot_lock_regions(void) {
    pthread_mutex_lock(&lock);
}

void ingot_unlock_regions(void) {
    pthread_mutex_unlock(&lock);
}

char *ingot_map_aligned(size_t bytes, size_t alignment) {
    char *address = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED || (uintptr_t)address % alignment == 0) {
        return address == MAP_FAILED ? NULL : address;
    }
    munmap(address, bytes);
    address = mmap(NULL, bytes + alignment, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (address == MAP_FAILED) {
        return NULL;
    }
    size_t before = (alignment - (uintptr_t)address % alignment) % alignment;
    if (before > 0) {
        munmap(address, before);
    }
    if (before < alignment) {
        munmap(address + before + bytes, alignment - before);
    }
    return address + before;
}

#ifdef MADV_HUGEPAGE

/* The first of `count` adjacent slots that are free; SLOTS if there are none. */
static unsigned free_run(uint64_t used, unsigned count) {
    uint64_t runs = ~used; /* bit i: the `length` slots from i on are free */
    for (unsigned length = 1; length < count;) {
        unsigned more = length < count - length ? length : count - length;
        runs &= runs >> more;
        length += more;
    }
    return runs == 0 ? SLOTS : (unsigned)__builtin_ctzll(runs);
}

static uint64_t slot_bits(unsigned first, unsigned count) {
    return (UINT64_MAX >> (SLOTS - count)) << first;
}

static HugeRegion *add_region(void) {
    HugeRegion *region = calloc(1, sizeof *region);
    if (region == NULL) {
        return NULL;
    }
    region->address = ingot_map_aligned(REGION, INGOT_HUGE_PAGE);
    if (region->address == NULL) {
        free(region);
        return NULL;
    }
    madvise(region->address, REGION, MADV_HUGEPAGE);
    region->next = regions;
    if (regions != NULL) {
        regions->previous = region;
    }
    regions = region;
    return region;
}

/* Whether a block shares huge pages: all of its slots are then in memory, used or not. */
static bool may_share(size_t size, size_t mapped) {
    return size < MIN_HUGE_PAGE_BYTES && (mapped - size) * MIN_USE_PER_WASTE <= size;
}

/* Whether a process has so little memory that it takes no huge page. Counts the block if it has. */
static bool is_among_first(size_t size) {
    bool is_first = regions == NULL && bytes_before + size <= MAX_BYTES_WITHOUT_HUGE_PAGES;
    bytes_before += is_first ? size : 0;
    return is_first;
}

static void *refuse(void) {
    pthread_mutex_unlock(&lock);
    return NULL;
}

char *ingot_take_from_region(size_t size, size_t *mapped, HugeRegion **region) {
    *mapped = (size + SLOT - 1) / SLOT * SLOT;
    if (!may_share(size, *mapped)) {
        return NULL;
    }
    unsigned count = (unsigned)(*mapped / SLOT), first = 0;
    pthread_mutex_lock(&lock);
    if (is_among_first(size)) {
        return refuse();
    }
    HugeRegion *found = regions;
    while (found != NULL && (first = free_run(found->used, count)) == SLOTS) {
        found = found->next;
    }
    if (found == NULL) {
        found = add_region();
        first = 0;
    }
    if (found == NULL) {
        return refuse();
    }
    found->used |= slot_bits(first, count);
    pthread_mutex_unlock(&lock);
    *region = found;
    return found->address + first * SLOT;
}

void ingot_return_to_region(HugeRegion *region, char *address, size_t mapped) {
    unsigned first = (unsigned)((size_t)(address - region->address) / SLOT);
    if (madvise(address, mapped, MADV_DONTNEED) != 0) {
        memset(address, 0, mapped); /* whoever takes it next expects zeros */
    }
    pthread_mutex_lock(&lock);
    region->used &= ~slot_bits(first, (unsigned)(mapped / SLOT));
    bool is_unused = region->used == 0;
    if (is_unused) {
        *(region->previous != NULL ? &region->previous->next : &regions) = region->next;
        if (region->next != NULL) {
            region->next->previous = region->previous;
        }
    }
    pthread_mutex_unlock(&lock);
    if (is_unused) {
        munmap(region->address, REGION);
        free(region);
    }
}

#else /* without huge pages, blocks are separate mappings */

char *ingot_take_from_region(size_t size, size_t *mapped, HugeRegion **region) {
    (void)size, (void)mapped, (void)region;
    return NULL;
}

void ingot_return_to_region(HugeRegion *region, char *address, size_t mapped) {
    (void)region, (void)address, (void)mapped;
}

#endif
