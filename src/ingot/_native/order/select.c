/* Selection in rows, distributed over threads. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "order/select.h"

#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "integers.h"
#include "memory/allocator.h"
#include "order/keys.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "threads/pool.h"
#include "tuning.h"

enum {
    BLOCK = 64,        /* keys that are compared before any is moved */
    SAMPLE = 128,      /* keys in the sample that estimates the bracket */
    SMALL_SAMPLE = 16, /* the same if there are no more keys than ... */
    MEDIUM = 2048,
    HALVED = 512,            /* keys among which one is found by halving a range of values */
    FILTERED = 1024,         /* keys of a block of a row of which few are wanted */
    MIN_FILTERED_SHARE = 16, /* keys per wanted one for that */
    MARGIN = 2,              /* standard deviations between an estimate and its bracket */
    MAX_ROUNDS = 40,         /* after which sampling gives way to sorting */
    COLUMNS = 16,            /* adjacent rows that are read together: a cache line of floats */
};

#ifdef AVX512
#include <immintrin.h>
#endif

/* Halfway between two keys. */
INLINE int32_t middle_32(int32_t low, int32_t high) {
    return (int32_t)(low + ((int64_t)high - low) / 2);
}

INLINE int64_t middle_64(int64_t low, int64_t high) {
    return low + (int64_t)(((uint64_t)high - (uint64_t)low) / 2);
}

#define KEY int32_t
#define KEY_MIN INT32_MIN
#define KEY_MAX INT32_MAX
#define NAME(x) x##_32
#ifdef AVX512
#define VECTOR __m512i
#define LANES_OF_KEY 16
#define ALL_LANES 0xFFFFu
#define SPLAT(x) _mm512_set1_epi32(x)
#define LOAD_SOME(mask, from) _mm512_maskz_loadu_epi32((__mmask16)(mask), from)
#define LESS(mask, a, b) _mm512_mask_cmplt_epi32_mask((__mmask16)(mask), a, b)
#define EQUAL(mask, a, b) _mm512_mask_cmpeq_epi32_mask((__mmask16)(mask), a, b)
#define SMALLEST(mask, a, b) _mm512_mask_min_epi32(a, (__mmask16)(mask), a, b)
#define LARGEST(mask, a, b) _mm512_mask_max_epi32(a, (__mmask16)(mask), a, b)
#define SMALLEST_OF(a) _mm512_reduce_min_epi32(a)
#define LARGEST_OF(a) _mm512_reduce_max_epi32(a)
#define COMPRESS(mask, x) _mm512_maskz_compress_epi32((__mmask16)(mask), x)
#define STORE(to, x) _mm512_storeu_si512(to, x)
#define POSITIONS __m512i
#define FIRST_POSITIONS _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15)
#define POSITION_SPLAT(x) _mm512_set1_epi32(x)
#define POSITION_COMPRESS(mask, x) COMPRESS(mask, x)
#define POSITION_STORE(to, x) STORE(to, x)
#define POSITION_ADD(a, b) _mm512_add_epi32(a, b)
#include "order/select_avx512.h"
#endif
#include "order/select_loop.h"
#undef KEY
#undef KEY_MIN
#undef KEY_MAX
#undef NAME
#undef VECTOR
#undef LANES_OF_KEY
#undef ALL_LANES
#undef SPLAT
#undef LOAD_SOME
#undef LESS
#undef EQUAL
#undef SMALLEST
#undef LARGEST
#undef SMALLEST_OF
#undef LARGEST_OF
#undef COMPRESS
#undef POSITIONS
#undef FIRST_POSITIONS
#undef POSITION_SPLAT
#undef POSITION_COMPRESS
#undef POSITION_STORE
#undef POSITION_ADD

#define KEY int64_t
#define KEY_MIN INT64_MIN
#define KEY_MAX INT64_MAX
#define NAME(x) x##_64
#ifdef AVX512
#define VECTOR __m512i
#define LANES_OF_KEY 8
#define ALL_LANES 0xFFu
#define SPLAT(x) _mm512_set1_epi64(x)
#define LOAD_SOME(mask, from) _mm512_maskz_loadu_epi64((__mmask8)(mask), from)
#define LESS(mask, a, b) _mm512_mask_cmplt_epi64_mask((__mmask8)(mask), a, b)
#define EQUAL(mask, a, b) _mm512_mask_cmpeq_epi64_mask((__mmask8)(mask), a, b)
#define SMALLEST(mask, a, b) _mm512_mask_min_epi64(a, (__mmask8)(mask), a, b)
#define LARGEST(mask, a, b) _mm512_mask_max_epi64(a, (__mmask8)(mask), a, b)
#define SMALLEST_OF(a) _mm512_reduce_min_epi64(a)
#define LARGEST_OF(a) _mm512_reduce_max_epi64(a)
#define COMPRESS(mask, x) _mm512_maskz_compress_epi64((__mmask8)(mask), x)
#define POSITIONS __m256i
#define FIRST_POSITIONS _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7)
#define POSITION_SPLAT(x) _mm256_set1_epi32(x)
#define POSITION_COMPRESS(mask, x) _mm256_maskz_compress_epi32((__mmask8)(mask), x)
#define POSITION_STORE(to, x) _mm256_storeu_si256((__m256i *)(to), x)
#define POSITION_ADD(a, b) _mm256_add_epi32(a, b)
#include "order/select_avx512.h"
#endif
#include "order/select_loop.h"

typedef struct {
    const ingot_selection *selection;
    int64_t columns, tiles; /* rows that are read together, and the number of such tiles in each matrix */
    bool from_end;          /* whether fewer elements come after the pivot than before it */
    bool needs_rest;        /* whether results include elements of the larger side */
    bool is_one;            /* whether the result is the pivot alone */
    bool is_filtered;       /* whether few elements of a long row are wanted */
    atomic_bool short_of_memory;
} Job;

/* Per-thread state. */
typedef struct {
    char *memory;
    size_t size;
    char *keys; /* of the rows that are read together */
    size_t row; /* bytes of keys per row */
    void *scratch[2];
    uint32_t *few, *ties, *rest;
} Worker;

static bool prepare(Worker *worker, const Job *job) {
    const ingot_selection *s = job->selection;
    /* Rounded up to leave room for one vector more. */
    size_t row = worker->row = ((size_t)(s->length * ingot_key_size(s->dtype)) + 127) / 64 * 64;
    size_t positions = ((size_t)s->length * sizeof(uint32_t) + 127) / 64 * 64;
    worker->size = row * (size_t)(job->columns + 2) + 3 * positions;
    worker->memory = worker->keys = ingot_allocate(worker->size);
    if (worker->memory == NULL)
        return false;
    worker->scratch[0] = worker->keys + row * (size_t)job->columns;
    worker->scratch[1] = (char *)worker->scratch[0] + row;
    worker->few = (uint32_t *)((char *)worker->scratch[1] + row);
    worker->ties = (uint32_t *)((char *)worker->few + positions);
    worker->rest = (uint32_t *)((char *)worker->ties + positions);
    return true;
}

/* Writes positions, or the elements at them, to results with a stride of `stride` bytes. A negative `step` goes
 * backwards. */
static void write_some(const ingot_selection *s, const uint32_t *from, int64_t step, int64_t count, const char *row, char *to,
                       int64_t size) {
    int64_t stride = s->results.strides[1], apart = s->elements.strides[1];
    if (s->positions && step == 1 && stride == (int64_t)sizeof *from) {
        memcpy(to, from, (size_t)count * sizeof *from);
        return;
    }
    for (int64_t i = 0; i < count; i++, to += stride) {
        uint32_t position = from[i * step];
        const char *element = row + position * apart;
        if (s->positions)
            memcpy(to, &position, sizeof position);
        else if (size == 4)
            memcpy(to, element, 4);
        else if (size == 8)
            memcpy(to, element, 8);
        else
            memcpy(to, element, (size_t)size);
    }
}

/* Writes the wanted range of a partitioned row, which is [rest, few reversed] or [few, rest]. */
static void write_row(const Job *job, const Worker *worker, const char *row, char *to, int64_t size) {
    const ingot_selection *s = job->selection;
    int64_t edge = job->from_end ? s->kth : s->kth + 1, stride = s->results.strides[1];
    int64_t left = larger(0, smaller(s->end, edge) - s->begin), right = larger(0, s->end - larger(s->begin, edge));
    int64_t skipped = larger(s->begin, edge) - edge;
    char *behind = to + left * stride;
    if (job->from_end) {
        write_some(s, worker->rest + s->begin, 1, left, row, to, size);
        write_some(s, worker->few + (s->length - 1 - edge - skipped), -1, right, row, behind, size);
    } else {
        write_some(s, worker->few + s->begin, 1, left, row, to, size);
        write_some(s, worker->rest + skipped, 1, right, row, behind, size);
    }
}

/* The number of elements on the smaller side, the pivot included. */
static int64_t chosen_of(const Job *job) {
    const ingot_selection *s = job->selection;
    return job->from_end ? s->length - s->kth : s->kth + 1;
}

static void divide(const Job *job, const Worker *worker, void *keys) {
    const ingot_selection *s = job->selection;
    int64_t chosen = chosen_of(job);
    uint32_t *rest = job->needs_rest ? worker->rest : NULL;
    if (ingot_key_size(s->dtype) == 4) {
        if (job->from_end)
            invert_32(keys, s->length);
        divide_32(keys, s->length, chosen, job->is_one, (int32_t **)worker->scratch, worker->few, worker->ties, rest);
    } else {
        if (job->from_end)
            invert_64(keys, s->length);
        divide_64(keys, s->length, chosen, job->is_one, (int64_t **)worker->scratch, worker->few, worker->ties, rest);
    }
}

/* Same for few elements of a long row, without storing the keys of all: candidates are collected block by block, and
 * whenever they are many, all but the best are dropped, and the others become the bar. */
static void divide_filtered(const Job *job, const Worker *worker, const char *row) {
    const ingot_selection *s = job->selection;
    int64_t stride = s->elements.strides[1], chosen = chosen_of(job), found = 0;
    _Alignas(int64_t) char keys[FILTERED * sizeof(int64_t)];
    if (ingot_key_size(s->dtype) == 4) {
        int32_t limit = INT32_MAX, *candidates = (int32_t *)worker->keys;
        for (int64_t first = 0; first < s->length; first += FILTERED) {
            int64_t count = smaller(FILTERED, s->length - first);
            ingot_load_keys(s->dtype, row + first * stride, stride, count, keys);
            found += filter_32((int32_t *)keys, count, first, job->from_end, limit, candidates + found, worker->rest + found);
            if (found > 2 * chosen + FILTERED / 2)
                limit = best_32(candidates, worker->rest, &found, chosen, (int32_t **)worker->scratch);
        }
        divide_32(candidates, found, chosen, false, (int32_t **)worker->scratch, worker->few, worker->ties, NULL);
    } else {
        int64_t limit = INT64_MAX, *candidates = (int64_t *)worker->keys;
        for (int64_t first = 0; first < s->length; first += FILTERED) {
            int64_t count = smaller(FILTERED, s->length - first);
            ingot_load_keys(s->dtype, row + first * stride, stride, count, keys);
            found += filter_64((int64_t *)keys, count, first, job->from_end, limit, candidates + found, worker->rest + found);
            if (found > 2 * chosen + FILTERED / 2)
                limit = best_64(candidates, worker->rest, &found, chosen, (int64_t **)worker->scratch);
        }
        divide_64(candidates, found, chosen, false, (int64_t **)worker->scratch, worker->few, worker->ties, NULL);
    }
    for (int64_t i = 0; i < chosen; i++)
        worker->few[i] = worker->rest[worker->few[i]];
}

/* Reads the keys of adjacent rows, looping along the cache lines in either layout. */
static void read_rows(const Job *job, const Worker *worker, const char *from, int64_t columns) {
    const ingot_selection *s = job->selection;
    int64_t along = s->elements.strides[1], across = s->elements.strides[2], key = ingot_key_size(s->dtype);
    if (columns == 1) {
        ingot_load_keys(s->dtype, from, along, s->length, worker->keys);
        return;
    }
    for (int64_t i = 0; i < s->length; i++) {
        char line[COLUMNS * sizeof(int64_t)];
        ingot_load_keys(s->dtype, from + i * along, across, columns, line);
        for (int64_t c = 0; c < columns; c++)
            memcpy(worker->keys + (size_t)c * worker->row + i * key, line + c * key, (size_t)key);
    }
}

static void work(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    Job *job = context;
    const ingot_selection *s = job->selection;
    Worker worker;
    if (!prepare(&worker, job)) {
        atomic_store(&job->short_of_memory, true);
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        int64_t matrix = i / job->tiles, first = i % job->tiles * job->columns;
        int64_t columns = smaller(job->columns, s->behind - first);
        const char *from = s->elements.data + matrix * s->elements.strides[0] + first * s->elements.strides[2];
        char *to = s->results.data + matrix * s->results.strides[0] + first * s->results.strides[2];
        if (job->is_filtered)
            divide_filtered(job, &worker, from);
        else
            read_rows(job, &worker, from, columns);
        for (int64_t c = 0; c < columns; c++) {
            if (!job->is_filtered)
                divide(job, &worker, worker.keys + (size_t)c * worker.row);
            write_row(job, &worker, from + c * s->elements.strides[2], to + c * s->results.strides[2],
                      dtype_table[s->dtype]->itemsize);
        }
    }
    ingot_release(worker.memory, worker.size);
}

bool ingot_select(const ingot_selection *s) {
    Job job = {.selection = s, .from_end = 2 * s->kth >= s->length};
    job.needs_rest = job.from_end ? s->begin < s->kth : s->end > s->kth + 1;
    job.is_one = s->begin == s->kth && s->end == s->kth + 1;
    job.columns = larger(1, smaller(s->behind, COLUMNS));
    job.is_filtered =
        !job.needs_rest && job.columns == 1 && s->length >= 2 * FILTERED && chosen_of(&job) * MIN_FILTERED_SHARE <= s->length;
    job.tiles = (s->behind + job.columns - 1) / job.columns;
    atomic_init(&job.short_of_memory, false);
    int64_t count = s->before * job.tiles, grain = larger(1, SELECTION_GRAIN / (job.columns * larger(1, s->length)));
    int64_t done = ingot_interruptible_for(work, &job, 0, count, grain, grain * ingot_num_threads());
    return done == count && !atomic_load(&job.short_of_memory);
}
