/* The allocator: returns 64-byte aligned blocks, from a cache wherever possible, because the first write to each fresh
 * page costs a page fault, about as much as the computation itself.
 *
 * There are two kinds of blocks, distinguished by address alone:
 *   - large (over 32 KiB): memory that starts at a multiple of CHUNK, mapped separately or part of a huge region. Its
 * description is in a side table, so that a block of 2^n bytes takes 2^n bytes. Free ones are kept in bins by size class and in
 * a list by age, from which the oldest are unmapped when a limit is exceeded.
 *   - small: cut from a chunk, a large block of CHUNK bytes whose first 64 bytes are its header. Hence the address of a
 *     small block is never a multiple of CHUNK, and rounding it down gives the header.
 *
 * One lock guards everything; system calls are made without it. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "memory/allocator.h"
#include "tuning.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "memory/large_block.h"
#include "threads/machine.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#define ASAN_UNPOISON_MEMORY_REGION(address, size) ((void)(address), (void)(size))
#endif

#define CHUNK INGOT_LARGE_ALIGNMENT
#define SMALL_MAXIMUM ((size_t)32 << 10)
#define SIZE_MAXIMUM ((size_t)1 << 47) /* the address space; keeps all sums below from overflowing */

/* Size classes are spaced by 1/8 of a power of two for small and by 1/16 for large blocks: at most 12.5 % and 6.25 %
 * are lost to rounding. Small blocks up to 1 KiB are multiples of 64. */
#define SMALL_CLASSES 56
#define LARGE_CLASSES (32 * 16)

/* The fill byte of the debug setting: NaN in every floating-point format, true as bool, -1 as a signed integer. */
#define POISON 0xFF

typedef struct Chunk {
    LargeBlock *block;
    struct Chunk *next, *previous; /* in the list of chunks of its class that have room */
    char *free_blocks;             /* linked list: each block starts with the address of the next */
    uint32_t block_size;
    uint32_t small_class;
    uint32_t used;       /* blocks handed out */
    uint32_t cut_so_far; /* offset of the first byte that was never handed out */
} Chunk;

_Static_assert(sizeof(Chunk) <= INGOT_ALIGNMENT, "the header of a chunk takes the place of one small block");

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t once = PTHREAD_ONCE_INIT;

static struct {
    size_t active, peak;
    size_t cache;  /* bytes in free large blocks and in chunks without a block in use */
    size_t mapped; /* bytes in all large blocks, free or not, chunks included */
    size_t cache_limit, memory_limit, reach;
    bool poisons; /* whether blocks are filled with POISON before they are handed out */
    Chunk *with_room[SMALL_CLASSES];
    LargeBlock *bins[LARGE_CLASSES];
    LargeBlock *newest, *oldest;
} heap;

/* ---- start and fork ---- */

static void before_fork(void) {
    pthread_mutex_lock(&lock);
    ingot_lock_regions();
}

static void after_fork(void) {
    ingot_unlock_regions();
    pthread_mutex_unlock(&lock);
}

static void start(void) {
    size_t memory = (size_t)ingot_machine_memory();
    heap.memory_limit = memory / 5 * 4; /* MLX's default */
    heap.cache_limit = memory / 4;
    heap.reach = (size_t)ingot_machine_reach();
    const char *poison = getenv("INGOT_POISON_MEMORY");
    heap.poisons = poison != NULL && strcmp(poison, "1") == 0;
    pthread_atfork(before_fork, after_fork, after_fork);
}

static void lock_heap(void) {
    pthread_once(&once, start);
    pthread_mutex_lock(&lock);
}

static void unlock_heap(void) {
    pthread_mutex_unlock(&lock);
}

/* ---- size classes ---- */

/* The class index of `size`, with each power of two divided into 2^bits steps, and the size of that class. */
static unsigned class_in_steps(size_t size, unsigned bits, size_t *rounded) {
    size_t last = size - 1;
    unsigned exponent = 63 - (unsigned)__builtin_clzll(last);
    unsigned shift = exponent - bits;
    *rounded = ((last >> shift) + 1) << shift;
    return (exponent << bits) + (unsigned)(last >> shift) - (1u << bits);
}

static unsigned small_class(size_t size, size_t *rounded) {
    if (size <= 1024) {
        unsigned index = (unsigned)((size + 63) / 64);
        index = index == 0 ? 0 : index - 1;
        *rounded = (index + 1) * (size_t)64;
        return index;
    }
    return class_in_steps(size, 3, rounded) - (10u << 3) + 16;
}

static unsigned large_class(size_t size, size_t *rounded) {
    return class_in_steps(size, 4, rounded) - (15u << 4);
}

/* ---- free large blocks ---- */

static void bin_add(LargeBlock *block) {
    size_t rounded;
    LargeBlock **bin = &heap.bins[large_class(block->size, &rounded)];
    block->previous = NULL;
    block->next = *bin;
    if (*bin != NULL) {
        (*bin)->previous = block;
    }
    *bin = block;
    block->newer = NULL;
    block->older = heap.newest;
    *(heap.newest != NULL ? &heap.newest->newer : &heap.oldest) = block;
    heap.newest = block;
    heap.cache += block->size;
    ASAN_POISON_MEMORY_REGION(block->address, block->size);
}

static void bin_remove(LargeBlock *block) {
    size_t rounded;
    *(block->previous != NULL ? &block->previous->next : &heap.bins[large_class(block->size, &rounded)]) = block->next;
    if (block->next != NULL) {
        block->next->previous = block->previous;
    }
    *(block->newer != NULL ? &block->newer->older : &heap.newest) = block->older;
    *(block->older != NULL ? &block->older->newer : &heap.oldest) = block->newer;
    heap.cache -= block->size;
    ASAN_UNPOISON_MEMORY_REGION(block->address, block->size);
}

static void unlink_chunk(Chunk *chunk) {
    *(chunk->previous != NULL ? &chunk->previous->next : &heap.with_room[chunk->small_class]) = chunk->next;
    if (chunk->next != NULL) {
        chunk->next->previous = chunk->previous;
    }
}

/* Turns an empty chunk into a free large block. */
static void retire_chunk(Chunk *chunk) {
    unlink_chunk(chunk);
    heap.cache -= chunk->block->size;
    bin_add(chunk->block);
}

/* Removes free blocks, oldest first, until `*measure` is within the limit or none is left. The caller unmaps the
 * returned blocks after releasing the lock. */
static LargeBlock *evict_until(const size_t *measure, size_t limit) {
    LargeBlock *evicted = NULL;
    for (bool chunks_retired = false; *measure > limit;) {
        LargeBlock *block = heap.oldest;
        if (block == NULL && chunks_retired) {
            break;
        }
        if (block == NULL) {
            for (int i = 0; i < SMALL_CLASSES; i++) {
                for (Chunk *chunk = heap.with_room[i], *next; chunk != NULL; chunk = next) {
                    next = chunk->next;
                    if (chunk->used == 0) {
                        retire_chunk(chunk);
                    }
                }
            }
            chunks_retired = true;
            continue;
        }
        bin_remove(block);
        ingot_forget_block(block);
        heap.mapped -= block->size;
        block->newer = evicted;
        evicted = block;
    }
    return evicted;
}

/* ---- large blocks ---- */

/* Called with the lock held, and returns with it held, but releases it while mapping fresh memory. */
static LargeBlock *take_large(size_t size, int classes_above, bool *fresh) {
    size_t rounded;
    int wanted = (int)large_class(size, &rounded);
    *fresh = false;
    for (int i = wanted; i <= wanted + classes_above && i < LARGE_CLASSES; i++) {
        if (heap.bins[i] != NULL) {
            LargeBlock *block = heap.bins[i];
            bin_remove(block);
            return block;
        }
    }
    *fresh = true;
    heap.mapped += rounded;
    LargeBlock *evicted = evict_until(&heap.mapped, heap.memory_limit);
    bool possible = heap.mapped <= heap.reach;
    unlock_heap();
    ingot_unmap_blocks(evicted);
    LargeBlock *block = possible ? ingot_map_block(rounded) : NULL;
    lock_heap();
    if (block == NULL && possible && heap.cache > 0) {
        evicted = evict_until(&heap.cache, 0);
        unlock_heap();
        ingot_unmap_blocks(evicted);
        block = ingot_map_block(rounded);
        lock_heap();
    }
    if (block != NULL && !ingot_remember_block(block)) {
        block->newer = NULL;
        ingot_unmap_blocks(block);
        block = NULL;
    }
    if (block == NULL) {
        heap.mapped -= rounded;
    }
    return block;
}

/* ---- small blocks ---- */

static Chunk *make_chunk(unsigned class, size_t block_size) {
    bool fresh;
    LargeBlock *block = take_large(CHUNK, 0, &fresh);
    if (block == NULL) {
        return NULL;
    }
    Chunk *chunk = (Chunk *)block->address;
    *chunk = (Chunk){
        .block = block,
        .next = heap.with_room[class],
        .block_size = (uint32_t)block_size,
        .small_class = class,
        .cut_so_far = INGOT_ALIGNMENT,
    };
    if (chunk->next != NULL) {
        chunk->next->previous = chunk;
    }
    heap.with_room[class] = chunk;
    heap.cache += block->size; /* like every chunk without a block in use */
    ASAN_POISON_MEMORY_REGION(block->address + INGOT_ALIGNMENT, CHUNK - INGOT_ALIGNMENT);
    return chunk;
}

static bool chunk_is_full(const Chunk *chunk) {
    return chunk->free_blocks == NULL && chunk->cut_so_far + chunk->block_size > CHUNK;
}

static void *take_small(unsigned class, size_t block_size) {
    Chunk *chunk = heap.with_room[class];
    if (chunk == NULL && (chunk = make_chunk(class, block_size)) == NULL) {
        return NULL;
    }
    char *address = chunk->free_blocks;
    if (address != NULL) {
        ASAN_UNPOISON_MEMORY_REGION(address, block_size);
        memcpy(&chunk->free_blocks, address, sizeof(char *));
    } else {
        address = (char *)chunk + chunk->cut_so_far;
        ASAN_UNPOISON_MEMORY_REGION(address, block_size);
        chunk->cut_so_far += chunk->block_size;
    }
    if (chunk->used++ == 0) {
        heap.cache -= chunk->block->size;
    }
    if (chunk_is_full(chunk)) {
        unlink_chunk(chunk);
    }
    return address;
}

static void give_small(Chunk *chunk, char *address) {
    if (chunk_is_full(chunk)) {
        chunk->previous = NULL;
        chunk->next = heap.with_room[chunk->small_class];
        if (chunk->next != NULL) {
            chunk->next->previous = chunk;
        }
        heap.with_room[chunk->small_class] = chunk;
    }
    memcpy(address, &chunk->free_blocks, sizeof(char *));
    chunk->free_blocks = address;
    ASAN_POISON_MEMORY_REGION(address, chunk->block_size);
    if (--chunk->used == 0) {
        heap.cache += chunk->block->size;
        /* Each class keeps one empty chunk, so that repeatedly allocating and releasing one block stays cheap. */
        if (chunk->next != NULL || chunk->previous != NULL) {
            retire_chunk(chunk);
        }
    }
}

/* ---- public functions ---- */

static Chunk *chunk_of(const void *address) {
    return (Chunk *)((uintptr_t)address & ~(uintptr_t)(CHUNK - 1));
}

static void count_active(size_t size) {
    heap.active += size;
    if (heap.active > heap.peak) {
        heap.peak = heap.active;
    }
}

/* Sets `fresh` to whether the block is known to be zero. */
static void *allocate(size_t size, bool *fresh) {
    void *address = NULL;
    *fresh = false;
    if (size > SIZE_MAXIMUM) {
        return NULL;
    }
    lock_heap();
    if (size <= SMALL_MAXIMUM) {
        size_t rounded;
        unsigned class = small_class(size, &rounded);
        address = take_small(class, rounded);
        if (address != NULL) {
            count_active(rounded);
        }
    } else {
        LargeBlock *block = take_large(size, MAX_CLASSES_ABOVE, fresh);
        if (block != NULL) {
            address = block->address;
            count_active(block->size);
        }
    }
    bool poisons = heap.poisons;
    unlock_heap();
    if (poisons && address != NULL) {
        memset(address, POISON, size);
        *fresh = false;
    }
    return address;
}

void *ingot_allocate(size_t size) {
    bool fresh;
    return allocate(size, &fresh);
}

void *ingot_allocate_zeroed(size_t size) {
    bool fresh;
    void *address = allocate(size, &fresh);
    if (address != NULL && !fresh) {
        memset(address, 0, size);
    }
    return address;
}

void ingot_release(void *address, size_t size) {
    (void)size;
    if (address == NULL) {
        return;
    }
    Chunk *chunk = chunk_of(address);
    lock_heap();
    if ((void *)chunk != address) {
        heap.active -= chunk->block_size;
        give_small(chunk, address);
    } else {
        LargeBlock *block = ingot_find_block(address);
        if (block == NULL) {
            unlock_heap();
            fprintf(stderr, "ingot: released a block that was never allocated: %p\n", address);
            abort();
        }
        heap.active -= block->size;
        bin_add(block);
    }
    LargeBlock *evicted = evict_until(&heap.cache, heap.cache_limit);
    unlock_heap();
    ingot_unmap_blocks(evicted);
}

size_t ingot_usable_size(void *address) {
    Chunk *chunk = chunk_of(address);
    if ((void *)chunk != address) {
        return chunk->block_size; /* constant while the block is in use: no lock needed */
    }
    lock_heap();
    LargeBlock *block = ingot_find_block(address);
    unlock_heap();
    return block == NULL ? 0 : block->size;
}

void *ingot_reallocate(void *address, size_t size) {
    if (address == NULL) {
        return ingot_allocate(size);
    }
    size_t usable = ingot_usable_size(address);
    if (size <= usable && size >= usable / 2) {
        return address;
    }
    void *moved = ingot_allocate(size);
    if (moved != NULL) {
        memcpy(moved, address, size < usable ? size : usable);
        ingot_release(address, usable);
    }
    return moved;
}

static size_t read_counter(const size_t *counter) {
    lock_heap();
    size_t value = *counter;
    unlock_heap();
    return value;
}

size_t ingot_active_memory(void) {
    return read_counter(&heap.active);
}

size_t ingot_peak_memory(void) {
    return read_counter(&heap.peak);
}

size_t ingot_cache_memory(void) {
    return read_counter(&heap.cache);
}

size_t ingot_memory_reach(void) {
    return read_counter(&heap.reach);
}

size_t ingot_memory_limit(void) {
    return read_counter(&heap.memory_limit);
}

void ingot_reset_peak_memory(void) {
    lock_heap();
    heap.peak = 0; /* as in MLX: the next allocation raises it to the bytes active then */
    unlock_heap();
}

void ingot_clear_cache(void) {
    lock_heap();
    LargeBlock *evicted = evict_until(&heap.cache, 0);
    unlock_heap();
    ingot_unmap_blocks(evicted);
}

size_t ingot_set_cache_limit(size_t bytes) {
    lock_heap();
    size_t old = heap.cache_limit;
    heap.cache_limit = bytes;
    LargeBlock *evicted = evict_until(&heap.cache, bytes);
    unlock_heap();
    ingot_unmap_blocks(evicted);
    return old;
}

size_t ingot_set_memory_limit(size_t bytes) {
    lock_heap();
    size_t old = heap.memory_limit;
    heap.memory_limit = bytes;
    unlock_heap();
    return old;
}

bool ingot_set_memory_poison(bool poisons) {
    lock_heap();
    bool old = heap.poisons;
    heap.poisons = poisons;
    unlock_heap();
    return old;
}
