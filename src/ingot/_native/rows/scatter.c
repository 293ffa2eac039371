/* Scatters: items of work are a part of the updates and a range of table rows. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "rows/scatter.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "memory/allocator.h"
#include "rows/extremes.h"
#include "search/vectors.h"
#include "threads/pool.h"
#include "tuning.h"

#ifdef AVX512
#include <immintrin.h>
#endif

enum {
    LIST = 2048,    /* updates that are filtered at a time */
    SAMPLED = 1024, /* indices sampled to estimate the bounds of ranges */
    MAX_RANGES = 256,
    FILLED = 512,
};

#define AT(n) (list == NULL ? (n) : list[n])

/* Whether the rows of `count` updates never descend. */
static bool are_sorted(const int64_t *rows, const int64_t *list, int64_t count) {
    for (int64_t n = 1; n < count; n++)
        if (rows[AT(n)] < rows[AT(n - 1)])
            return false;
    return true;
}

/* How many updates ahead rows are prefetched, as the hardware cannot predict rows that are accessed in no regular order.
 * It can predict sorted ones that leave out few; prefetching these too makes sums slower, but not extremes, which wait
 * longer for the previous one: then `count`. */
static int64_t prefetch_distance(const ingot_scatter *s, const int64_t *rows, const int64_t *list, int64_t count, bool sorted) {
    bool extreme = s->mode == SCATTER_MAXIMUM || s->mode == SCATTER_MINIMUM;
    if (sorted && !extreme && count > 0 && rows[AT(count - 1)] - rows[AT(0)] <= count)
        return count;
    int64_t distance = PREFETCHED_SCATTER_BYTES / (s->width * s->itemsize);
    return distance < 2 ? 2 : distance > MAX_SCATTER_PREFETCH ? MAX_SCATTER_PREFETCH : distance;
}

static inline void prefetch(const char *update, const char *row, int64_t nbytes) {
    for (int64_t at = 0; at < nbytes && at < MAX_PREFETCHED_ROW; at += 64) {
        __builtin_prefetch(update + at);
        __builtin_prefetch(row + at, 1);
    }
}

/* Single elements of sorted rows stay in a register while the row is the same: each would otherwise wait until the last
 * one was stored. */
#define EACH_ELEMENT(combined)                                      \
    do {                                                            \
        for (int64_t n = 0; n < count;) {                           \
            int64_t row = rows[AT(n)];                              \
            TYPE old = out[row], new;                               \
            do {                                                    \
                memcpy(&new, updates + AT(n) * stride, sizeof new); \
                old = (TYPE)(combined);                             \
                n++;                                                \
            } while (sorted && n < count && rows[AT(n)] == row);    \
            out[row] = old;                                         \
        }                                                           \
    } while (0)

#define EACH_ROW(combined)                                                                                             \
    do {                                                                                                               \
        int64_t nbytes = width * (int64_t)sizeof(TYPE);                                                                \
        for (int64_t n = 0; n < count; n++) {                                                                          \
            if (n + ahead < count)                                                                                     \
                prefetch(updates + AT(n + ahead) * stride, (const char *)(out + rows[AT(n + ahead)] * width), nbytes); \
            TYPE *restrict to = out + rows[AT(n)] * width;                                                             \
            const char *restrict from = updates + AT(n) * stride;                                                      \
            for (int64_t i = 0; i < width; i++) {                                                                      \
                TYPE old = to[i], new;                                                                                 \
                memcpy(&new, from + i * (int64_t)sizeof new, sizeof new);                                              \
                to[i] = (TYPE)(combined);                                                                              \
            }                                                                                                          \
        }                                                                                                              \
    } while (0)

#define EACH(combined)              \
    do {                            \
        if (width == 1)             \
            EACH_ELEMENT(combined); \
        else                        \
            EACH_ROW(combined);     \
        return;                     \
    } while (0)

/* For each type: combines `count` updates in order: those whose indices are in a list, or the first ones if it is NULL;
 * whether their rows are sorted, and how many updates ahead are prefetched.
 * Integers wrap around, so they are added and multiplied as unsigned. */
#define DEFINE(NAME, ELEMENT, UNSIGNED, MAXIMUM, MINIMUM)                                                           \
    FOR_EACH_MACHINE                                                                                                \
    static void NAME(ingot_scatter_mode mode, void *table, int64_t width, const int64_t *rows, const char *updates, \
                     int64_t stride, const int64_t *list, int64_t count, bool sorted, int64_t ahead) {              \
        typedef ELEMENT TYPE;                                                                                       \
        TYPE *out = table;                                                                                          \
        switch (mode) {                                                                                             \
        case SCATTER_ASSIGN:                                                                                        \
            EACH(((void)old, new));                                                                                 \
        case SCATTER_ADD:                                                                                           \
            EACH((UNSIGNED)old + (UNSIGNED)new);                                                                    \
        case SCATTER_MULTIPLY:                                                                                      \
            EACH((UNSIGNED)old * (UNSIGNED)new);                                                                    \
        case SCATTER_MAXIMUM:                                                                                       \
            EACH(MAXIMUM(old, new));                                                                                \
        default:                                                                                                    \
            EACH(MINIMUM(old, new));                                                                                \
        }                                                                                                           \
    }

DEFINE(scatter_uint8, uint8_t, uint32_t, LARGER, SMALLER)
DEFINE(scatter_uint16, uint16_t, uint32_t, LARGER, SMALLER)
DEFINE(scatter_uint32, uint32_t, uint32_t, LARGER, SMALLER)
DEFINE(scatter_uint64, uint64_t, uint64_t, LARGER, SMALLER)
DEFINE(scatter_int8, int8_t, uint32_t, LARGER, SMALLER)
DEFINE(scatter_int16, int16_t, uint32_t, LARGER, SMALLER)
DEFINE(scatter_int32, int32_t, uint32_t, LARGER, SMALLER)
DEFINE(scatter_int64, int64_t, uint64_t, LARGER, SMALLER)
DEFINE(scatter_float, float, float, vector_larger_float, vector_smaller_float)
DEFINE(scatter_double, double, double, vector_larger_double, vector_smaller_double)

typedef void (*Combine)(ingot_scatter_mode mode, void *table, int64_t width, const int64_t *rows, const char *updates,
                        int64_t stride, const int64_t *list, int64_t count, bool sorted, int64_t ahead);

static Combine combine_for(int dtype) {
    switch (dtype) {
    case BOOL:
    case UINT8:
        return scatter_uint8;
    case UINT16:
        return scatter_uint16;
    case UINT32:
        return scatter_uint32;
    case UINT64:
        return scatter_uint64;
    case INT8:
        return scatter_int8;
    case INT16:
        return scatter_int16;
    case INT32:
        return scatter_int32;
    case INT64:
        return scatter_int64;
    case FLOAT32:
        return scatter_float;
    default:
        return scatter_double;
    }
}

typedef struct {
    const ingot_scatter *scatter;
    Combine combine;
    char *tables[MAX_SCATTER_PARTS]; /* what the updates of each part are combined into; the first is the result */
    bool sorted;                     /* whether all rows are, so that each range of them has updates that follow one another */
    int64_t parts, ranges;
    int64_t bounds[MAX_RANGES + 1]; /* of the ranges of rows */
} Job;

/* Fills `count` elements with copies of one, the later ones with copies of the first FILLED, which stay in L1. */
static void fill(char *to, const char *element, int64_t itemsize, int64_t count) {
    if (count == 0)
        return;
    memcpy(to, element, (size_t)itemsize);
    for (int64_t done = 1, more; done < count; done += more) {
        more = done < FILLED ? done : FILLED;
        more = more < count - done ? more : count - done;
        memcpy(to + done * itemsize, to, (size_t)(more * itemsize));
    }
}

/* Writes the element that, combined with another, gives that other: -0 for sums of floats. */
static void write_identity(const ingot_scatter *s, char *to) {
    bool is_float = s->dtype == FLOAT32 || s->dtype == FLOAT64, is_signed = s->dtype >= INT8 && s->dtype <= INT64;
    bool is_maximum = s->mode == SCATTER_MAXIMUM, is_minimum = s->mode == SCATTER_MINIMUM;
    double number = is_maximum ? -INFINITY : is_minimum ? INFINITY : -0.0;
    uint64_t least = is_signed ? (uint64_t)1 << (8 * s->itemsize - 1) : 0, word = is_maximum ? least : is_minimum ? ~least : 0;
    float narrow = (float)number;
    if (is_float)
        memcpy(to, s->dtype == FLOAT32 ? (const void *)&narrow : (const void *)&number, (size_t)s->itemsize);
    else /* the low bytes come first */
        memcpy(to, &word, (size_t)s->itemsize);
}

static void copy_rows(const ingot_scatter *s, int64_t begin, int64_t end) {
    int64_t row = s->width * s->itemsize, down = s->base_strides[0], along = s->base_strides[1];
    if (along == s->itemsize && down == row) {
        memcpy(s->out + begin * row, s->base + begin * row, (size_t)((end - begin) * row));
        return;
    }
    bool is_zero = along == 0 && down == 0;
    for (int64_t i = 0; is_zero && i < s->itemsize; i++)
        is_zero = s->base[i] == 0;
    if (is_zero) {
        memset(s->out + begin * row, 0, (size_t)((end - begin) * row));
        return;
    }
    for (int64_t i = begin; i < end; i++) {
        char *to = s->out + i * row;
        const char *from = s->base + i * down;
        if (along == s->itemsize)
            memcpy(to, from, (size_t)row);
        else if (along == 0)
            fill(to, from, s->itemsize, s->width);
        else
            for (int64_t j = 0; j < s->width; j++)
                memcpy(to + j * s->itemsize, from + j * along, (size_t)s->itemsize);
    }
}

/* Lists the indices of the updates from `begin` on whose rows are in the range. The list must have room for one
 * vector more. */
static int64_t updates_of_plain(const int64_t *rows, int64_t begin, int64_t end, int64_t low, int64_t high, int64_t *list) {
    int64_t found = 0;
    for (int64_t i = begin; i < end; i++) {
        list[found] = i;
        found += (rows[i] >= low) & (rows[i] < high);
    }
    return found;
}

#ifdef AVX512
AVX512 static int64_t updates_of_avx512(const int64_t *rows, int64_t begin, int64_t end, int64_t low, int64_t high,
                                        int64_t *list) {
    __m512i first = _mm512_set1_epi64(low), length = _mm512_set1_epi64(high - low), step = _mm512_set1_epi64(8);
    __m512i number = _mm512_add_epi64(_mm512_set1_epi64(begin), _mm512_setr_epi64(0, 1, 2, 3, 4, 5, 6, 7));
    int64_t found = 0;
    for (int64_t i = begin; i < end; i += 8, number = _mm512_add_epi64(number, step)) {
        __mmask8 here = (__mmask8)(end - i >= 8 ? 0xFF : (1 << (end - i)) - 1);
        __m512i distance = _mm512_sub_epi64(_mm512_maskz_loadu_epi64(here, rows + i), first);
        __mmask8 mine = _mm512_mask_cmplt_epu64_mask(here, distance, length);
        _mm512_storeu_si512(list + found, _mm512_maskz_compress_epi64(mine, number));
        found += __builtin_popcount(mine);
    }
    return found;
}
#endif

static int64_t updates_of(const int64_t *rows, int64_t begin, int64_t end, int64_t low, int64_t high, int64_t *list) {
#ifdef AVX512
    if (ingot_has_avx512())
        return updates_of_avx512(rows, begin, end, low, high, list);
#endif
    return updates_of_plain(rows, begin, end, low, high, list);
}

FOR_EACH_MACHINE
static bool is_block_sorted(const int64_t *rows, int64_t count) {
    bool descends = false;
    for (int64_t i = 1; i < count; i++)
        descends |= rows[i] < rows[i - 1];
    return !descends;
}

/* Whether the rows of all updates never descend. Blocks, which overlap by one row, are vectorised. */
static bool are_all_sorted(const ingot_scatter *s) {
    for (int64_t i = 0; i < s->update_count; i += LIST - 1)
        if (!is_block_sorted(s->rows + i, s->update_count - i < LIST ? s->update_count - i : LIST))
            return false;
    return true;
}

/* The first update of sorted ones whose row is at least `row`. */
static int64_t first_update(const ingot_scatter *s, int64_t row) {
    int64_t low = 0, high = s->update_count;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (s->rows[middle] < row)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Combines the updates of one part into the rows of one range. */
static void combine_part(const Job *job, int64_t part, int64_t low, int64_t high) {
    const ingot_scatter *s = job->scatter;
    int64_t list[LIST + 8], begin = s->update_count * part / job->parts, end = s->update_count * (part + 1) / job->parts;
    char *table = job->tables[part];
    bool all = job->ranges == 1 || job->sorted;
    if (job->sorted) {
        begin = first_update(s, low);
        end = first_update(s, high);
    }
    for (int64_t i = begin; i < end && low < high; i += LIST) {
        int64_t count = i + LIST < end ? LIST : end - i;
        const int64_t *rows = s->rows + i;
        const char *updates = s->updates + i * s->update_stride;
        if (!all)
            count = updates_of(rows, 0, count, low, high, list);
        const int64_t *listed = all ? NULL : list;
        bool sorted = job->sorted || are_sorted(rows, listed, count);
        int64_t ahead = prefetch_distance(s, rows, listed, count, sorted);
        job->combine(s->mode, table, s->width, rows, updates, s->update_stride, listed, count, sorted, ahead);
    }
}

static void work(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const Job *job = context;
    const ingot_scatter *s = job->scatter;
    char identity[8];
    write_identity(s, identity);
    for (int64_t item = begin; item < end; item++) {
        int64_t part = item / job->ranges, low = job->bounds[item % job->ranges], high = job->bounds[item % job->ranges + 1];
        if (part > 0)
            fill(job->tables[part] + low * s->width * s->itemsize, identity, s->itemsize, (high - low) * s->width);
        else if (s->base != NULL)
            copy_rows(s, low, high);
        combine_part(job, part, low, high);
    }
}

/* Combines the tables of the parts, in order. */
static void merge(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const Job *job = context;
    const ingot_scatter *s = job->scatter;
    const int64_t first = 0, offset = begin * s->width * s->itemsize;
    for (int64_t part = 1; part < job->parts; part++) /* as one update of one long row */
        job->combine(s->mode, s->out + offset, (end - begin) * s->width, &first, job->tables[part] + offset, 0, NULL, 1, true,
                     1);
}

static int by_number(const void *a, const void *b) {
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

/* Chooses ranges of rows with about equal work, estimated from a sample of the updates, and from the rows if these
 * are copied. */
static void find_bounds(Job *job, int64_t ranges) {
    const ingot_scatter *s = job->scatter;
    job->bounds[0] = 0;
    job->bounds[ranges] = s->row_count;
    if (ranges == 1) /* sorting the sample takes 60 us */
        return;
    int64_t sample[SAMPLED], size = s->update_count < SAMPLED ? s->update_count : SAMPLED, at = 0;
    for (int64_t i = 0; i < size; i++)
        sample[i] = s->rows[i * s->update_count / size];
    qsort(sample, (size_t)size, sizeof *sample, by_number);
    double of_copies = s->base == NULL ? 0 : (double)s->row_count, of_updates = 2 * (double)s->update_count;
    for (int64_t range = 1; range < ranges; range++) {
        double wanted = (of_copies + of_updates) * (double)range / (double)ranges;
        int64_t low = job->bounds[range - 1], high = s->row_count;
        while (low < high) { /* binary search for the first row with enough work before it */
            int64_t row = low + (high - low) / 2;
            at = 0;
            for (int64_t a = 0, b = size; a < b;) {
                int64_t middle = a + (b - a) / 2;
                if (sample[middle] < row)
                    at = a = middle + 1;
                else
                    b = middle;
            }
            double before =
                of_copies * (double)row / (double)s->row_count + of_updates * (double)at / (double)(size > 0 ? size : 1);
            if (before < wanted)
                low = row + 1;
            else
                high = row;
        }
        job->bounds[range] = low;
    }
}

/* The number of parts of the updates that are combined into tables of their own. Threads that share the updates by rows
 * each read all memory around their own, which takes as long as reading all; parts are contiguous. The order of a sum
 * of floats must not depend on the number of threads, so neither may their parts. */
static int64_t parts_of(const Job *job, int64_t threads) {
    const ingot_scatter *s = job->scatter;
    bool is_sum = s->mode == SCATTER_ADD, is_float = s->dtype == FLOAT32 || s->dtype == FLOAT64;
    int64_t given = s->update_count * s->width, parts = given / (MIN_SCATTER_PART * s->row_count * s->width);
    if (job->sorted || given < MIN_NATIVE_SCATTER || s->width < MIN_NATIVE_SCATTER_ROW || s->mode == SCATTER_ASSIGN ||
        s->mode == SCATTER_MULTIPLY)
        return 1;
    int64_t most = is_sum && is_float ? MAX_SCATTER_PARTS : threads < MAX_SCATTER_PARTS ? threads : MAX_SCATTER_PARTS;
    parts = parts < most ? parts : most;
    return parts > 1 ? parts : 1;
}

bool ingot_scatter_rows(const ingot_scatter *s) {
    Job job = {.scatter = s, .combine = combine_for(s->dtype), .tables = {s->out}};
    int64_t threads = ingot_num_threads(), table = s->row_count * s->width;
    int64_t elements = s->update_count * s->width + (s->base == NULL ? 0 : table);
    job.sorted = are_all_sorted(s);
    job.parts = parts_of(&job, threads);
    int64_t extra = (job.parts - 1) * table * s->itemsize;
    char *others = job.parts > 1 ? ingot_allocate((size_t)extra) : NULL;
    if (job.parts > 1 && others == NULL)
        return false;
    for (int64_t part = 1; part < job.parts; part++)
        job.tables[part] = others + (part - 1) * table * s->itemsize;
    int64_t ranges = threads == 1 || elements < 2 * SCATTER_GRAIN ? 1 : elements / SCATTER_GRAIN;
    /* All threads scan the same updates at the same time, which then are in a shared cache. */
    int64_t most = (threads + job.parts - 1) / job.parts;
    ranges = ranges < most ? ranges : most;
    ranges = ranges < MAX_RANGES ? ranges : MAX_RANGES;
    job.ranges = ranges < s->row_count ? ranges : s->row_count;
    find_bounds(&job, job.ranges);
    ingot_parallel_for(work, &job, job.parts * job.ranges, 1);
    if (job.parts > 1) {
        ingot_parallel_for(merge, &job, s->row_count, SCATTER_GRAIN / s->width + 1);
        ingot_release(others, (size_t)extra);
    }
    return true;
}
