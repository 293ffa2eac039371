/* Radix sort of rows, distributed over threads. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "order/sort.h"

#include <stdatomic.h>
#include <string.h>

#include "integers.h"
#include "memory/allocator.h"
#include "order/keys.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "threads/pool.h"
#include "tuning.h"

enum {
    VALUES = 256,    /* of a byte */
    LOADED = 256,    /* keys that are computed at a time */
    MAX_CHUNKS = 64, /* of a row */
};

/* How elements of a dtype become unsigned keys of as many bytes, and back. */
typedef struct {
    int dtype, itemsize;
    int64_t limit; /* of keys: those of NaN may have more bytes than the elements */
    uint64_t bias; /* from signed keys to unsigned ones */
    uint64_t flip; /* bits by which an integer differs from its key */
    uint64_t sign; /* of floats; 0 for integers */
} Traits;

typedef struct {
    const Traits *traits;
    const char *from;
    char *to;
    int64_t in, out, length; /* strides in bytes */
    bool positions, zeros_are_equal;
    void *items[2]; /* in their present order, and room for them in the next one */
} Row;

typedef struct {
    void (*load)(const Row *row, int64_t begin, int64_t end);
    void (*count)(const Row *row, int64_t begin, int64_t end, int shift, int64_t *counts);
    void (*move)(const Row *row, int64_t begin, int64_t end, int shift, int64_t *next);
    void (*write)(const Row *row, int64_t begin, int64_t end);
    size_t item_size;
} Passes;

typedef struct {
    uint64_t key;
    uint32_t position;
} Pair;

static Traits traits_of(int dtype) {
    Traits traits = {.dtype = dtype, .itemsize = dtype_table[dtype]->itemsize, .limit = INT64_MAX};
    bool is_inexact = dtype == FLOAT16 || dtype == BFLOAT16 || dtype == FLOAT32 || dtype == FLOAT64;
    uint64_t top = (uint64_t)1 << (8 * traits.itemsize - 1);
    if (traits.itemsize == 4 || traits.itemsize == 8 || is_inexact || dtype == INT16) {
        traits.limit = (int64_t)(top - 1);
        traits.bias = top;
    } else {
        traits.limit = INT32_MAX;
    }
    if (dtype == INT8 || dtype == UINT32 || dtype == UINT64)
        traits.flip = top;
    traits.sign = is_inexact ? top : 0;
    return traits;
}

/* The element of an unsigned key, in its lowest bytes. */
INLINE uint64_t element_of(const Traits *traits, uint64_t key) {
    uint64_t bits = key - traits->bias;
    if (traits->sign != 0 && key < traits->bias) /* the magnitudes of negative numbers are inverted */
        bits = ~bits | traits->sign;
    return bits ^ traits->flip;
}

#define ITEM uint32_t
#define SIGNED int32_t
#define NAME(x) x##_elements_32
#define KEY_OF(item) (item)
#define MAKE(key, position) ((uint32_t)(key))
#define RESULT(row, item) element_of((row)->traits, item)
#include "order/sort_loop.h"

#define ITEM uint64_t
#define SIGNED int64_t
#define NAME(x) x##_elements_64
#define KEY_OF(item) (item)
#define MAKE(key, position) (key)
#define RESULT(row, item) element_of((row)->traits, item)
#include "order/sort_loop.h"

/* A key and its position in one number. */
#define ITEM uint64_t
#define SIGNED int32_t
#define NAME(x) x##_positions_32
#define KEY_OF(item) ((item) >> 32)
#define MAKE(key, position) ((key) << 32 | (uint64_t)(position))
#define RESULT(row, item) ((item) & UINT32_MAX)
#include "order/sort_loop.h"

#define ITEM Pair
#define SIGNED int64_t
#define NAME(x) x##_positions_64
#define KEY_OF(item) ((item).key)
#define MAKE(key, position) ((Pair){key, (uint32_t)(position)})
#define RESULT(row, item) ((uint64_t)(item).position)
#include "order/sort_loop.h"

static const Passes *passes_for(const Traits *traits, bool positions) {
    if (traits->itemsize == 8)
        return positions ? &passes_positions_64 : &passes_elements_64;
    return positions ? &passes_positions_32 : &passes_elements_32;
}

/* What a pass does with a chunk of a row. */
typedef enum { LOAD, COUNT, MOVE, WRITE } Stage;

typedef struct {
    Row row;
    const Passes *passes;
    Stage stage;
    int shift, thread; /* the thread, by its number in the loop over rows */
    atomic_bool *stopped;
    int64_t chunks;
    int64_t (*next)[VALUES]; /* per chunk: counts of a byte's values, then where items go */
} Sorting;

static void run_chunks(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const Sorting *s = context;
    for (int64_t chunk = begin; chunk < end; chunk++) {
        int64_t first = s->row.length * chunk / s->chunks, last = s->row.length * (chunk + 1) / s->chunks;
        if (s->stage == LOAD)
            s->passes->load(&s->row, first, last);
        else if (s->stage == COUNT)
            s->passes->count(&s->row, first, last, s->shift, s->next[chunk]);
        else if (s->stage == MOVE)
            s->passes->move(&s->row, first, last, s->shift, s->next[chunk]);
        else
            s->passes->write(&s->row, first, last);
    }
}

static void run(Sorting *s, Stage stage) {
    s->stage = stage;
    if (s->chunks == 1)
        run_chunks(s, 0, 1, 0);
    else
        ingot_parallel_for(run_chunks, s, s->chunks, 1);
}

/* Replaces counts by the offset of the first item of each value. False if all items have the same value. */
static bool sum_counts(Sorting *s) {
    int64_t total = 0;
    for (int value = 0; value < VALUES; value++) {
        int64_t before = total;
        for (int64_t chunk = 0; chunk < s->chunks; chunk++) {
            int64_t count = s->next[chunk][value];
            s->next[chunk][value] = total;
            total += count;
        }
        if (total - before == s->row.length)
            return false;
    }
    return true;
}

/* False if a signal stopped it. */
static bool sort_row(Sorting *s) {
    run(s, LOAD);
    for (s->shift = 0; s->shift < 8 * s->row.traits->itemsize; s->shift += 8) {
        if (ingot_is_stopped(s->stopped, s->thread))
            return false;
        run(s, COUNT);
        if (!sum_counts(s))
            continue;
        run(s, MOVE);
        void *items = s->row.items[0];
        s->row.items[0] = s->row.items[1];
        s->row.items[1] = items;
    }
    run(s, WRITE);
    return true;
}

typedef struct {
    const ingot_sorting *sorting;
    const Traits *traits;
    int64_t chunks;      /* of each row */
    atomic_bool stopped; /* memory is short or, with an exception set, a signal handler raised */
} Job;

static bool sort_some(Job *job, int64_t begin, int64_t end, int thread) {
    const ingot_sorting *g = job->sorting;
    const Passes *passes = passes_for(job->traits, g->positions);
    size_t size = passes->item_size * (size_t)g->length, counts = sizeof(int64_t[VALUES]) * (size_t)job->chunks;
    char *memory = ingot_allocate(2 * size + counts);
    bool done = memory != NULL;
    for (int64_t row = begin; done && row < end; row++) {
        int64_t before = row / g->behind, behind = row % g->behind;
        Sorting s = {
            .row = {.traits = job->traits,
                    .from = g->elements.data + before * g->elements.strides[0] + behind * g->elements.strides[2],
                    .to = g->results.data + before * g->results.strides[0] + behind * g->results.strides[2],
                    .in = g->elements.strides[1],
                    .out = g->results.strides[1],
                    .length = g->length,
                    .positions = g->positions,
                    .zeros_are_equal = g->positions && job->traits->sign != 0,
                    .items = {memory + counts, memory + counts + size}},
            .passes = passes,
            .thread = thread,
            .stopped = &job->stopped,
            .chunks = job->chunks,
            .next = (int64_t (*)[VALUES])memory,
        };
        done = sort_row(&s);
    }
    if (memory != NULL)
        ingot_release(memory, 2 * size + counts);
    return done;
}

static void sort_rows(void *context, int64_t begin, int64_t end, int thread) {
    Job *job = context;
    if (!atomic_load(&job->stopped) && !sort_some(job, begin, end, thread))
        atomic_store(&job->stopped, true);
}

bool ingot_sort_rows(const ingot_sorting *g) {
    Traits traits = traits_of(g->dtype);
    Job job = {.sorting = g, .traits = &traits, .chunks = 1};
    int64_t rows = g->before * g->behind, threads = ingot_num_threads();
    atomic_init(&job.stopped, false);
    ingot_start_polling();
    if (rows < threads && g->length >= 2 * SORT_GRAIN) {
        job.chunks = smaller(smaller(threads, MAX_CHUNKS), g->length / SORT_GRAIN);
        return sort_some(&job, 0, rows, 0);
    }
    int64_t grain = larger(1, SORT_GRAIN / larger(1, g->length));
    return ingot_interruptible_for(sort_rows, &job, 0, rows, grain, grain * threads) == rows && !atomic_load(&job.stopped);
}
