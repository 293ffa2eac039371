/* Scans: how rows, chunks of long rows, and columns are distributed over threads. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "rows/scan.h"

#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "integers.h"
#include "memory/allocator.h"
#include "rows/scan_kernels.h"
#include "rows/scan_tiles.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "tuning.h"

typedef struct {
    const ingot_scan *scan;
    const ingot_scan_kernel *kernel;
    ingot_scan_segments segments; /* the version for this machine */
    bool in_lanes;                /* whether that scans segments of adjacent elements in lanes */
    bool past_caches;             /* whether elements and results exceed the caches */
    int64_t itemsize;
    int64_t tiles; /* tiles of columns in each matrix */
    /* For long rows, which are divided into groups of SEGMENTS chunks: */
    int64_t groups;      /* per row */
    atomic_llong next;   /* the next group to be claimed */
    char *carries;       /* per group, the result of all elements before it */
    atomic_char *known;  /* whether the carry has been written */
    atomic_bool stopped; /* a signal arrived: claimed groups are completed, and no more are claimed */
} Job;

static const char *row_of(const ingot_rows *rows, int64_t behind, int64_t row) {
    if (behind == 1) /* a division takes as long as a short row */
        return rows->data + row * rows->strides[0];
    return rows->data + row / behind * rows->strides[0] + row % behind * rows->strides[2];
}

/* Scans segments of which each has its length; these do not ascend. */
static void scan_segments(const Job *job, const char *const *from, char *const *to, const int64_t *lengths, int number,
                          char *values) {
    const ingot_scan *s = job->scan;
    int64_t in = s->elements.strides[1], out = s->results.strides[1];
    bool alike = number == SEGMENTS && lengths[number - 1] == lengths[0];
    if (alike && job->in_lanes && job->past_caches && to != NULL)
        ingot_scan_past_caches(job->segments, from, to, job->itemsize, lengths[0], values);
    else if (alike)
        job->segments(from, to, in, out, lengths[0], values);
    else if (job->in_lanes && number >= MIN_SCAN_LANES)
        ingot_scan_few(job->kernel, job->segments, from, to, job->itemsize, lengths, number, values);
    else
        for (int i = 0; i < number; i++)
            job->kernel->segment(from[i], to == NULL ? NULL : to[i], in, out, lengths[i], values + i * job->kernel->value_size);
}

/* ---- rows side by side ---- */

/* Scans up to SEGMENTS rows, chunk by chunk. */
static void scan_together(const Job *job, const char *const *from, char *const *to, int number) {
    const ingot_scan *s = job->scan;
    const ingot_scan_kernel *kernel = job->kernel;
    char carries[SEGMENTS * MAX_VALUE], own[SEGMENTS * MAX_VALUE], values[SEGMENTS * MAX_VALUE], *results[SEGMENTS];
    const char *elements[SEGMENTS];
    int64_t lengths[SEGMENTS];
    kernel->start(carries, SEGMENTS);
    for (int64_t at = 0; at < s->length; at += SCAN_CHUNK) {
        for (int i = 0; i < number; i++) {
            elements[i] = from[i] + at * s->elements.strides[1];
            results[i] = to[i] + at * s->results.strides[1];
            lengths[i] = smaller(SCAN_CHUNK, s->length - at);
        }
        memcpy(values, carries, sizeof values);
        if (at + SCAN_CHUNK < s->length) {
            kernel->start(own, SEGMENTS);
            scan_segments(job, elements, NULL, lengths, number, own);
            for (int i = 0; i < number; i++)
                kernel->follow(carries + i * kernel->value_size, own + i * kernel->value_size);
        }
        scan_segments(job, elements, results, lengths, number, values);
    }
}

static void scan_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const Job *job = context;
    const ingot_scan *s = job->scan;
    int64_t last = smaller(end * SEGMENTS, s->before * s->behind);
    for (int64_t row = begin * SEGMENTS; row < last; row += SEGMENTS) {
        const char *from[SEGMENTS];
        char *to[SEGMENTS];
        int number = (int)smaller(SEGMENTS, last - row);
        for (int i = 0; i < number; i++) {
            from[i] = row_of(&s->elements, s->behind, row + i);
            to[i] = (char *)row_of(&s->results, s->behind, row + i);
        }
        scan_together(job, from, to, number);
    }
}

/* Rows of few elements one by one. */
static void scan_short_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const Job *job = context;
    const ingot_scan *s = job->scan;
    job->kernel->rows(row_of(&s->elements, 1, begin), (char *)row_of(&s->results, 1, begin), s->elements.strides,
                      s->results.strides, s->length, end - begin);
}

/* ---- long rows ---- */

/* Computes the result of each chunk of a group or, if `to` is given, the scan of each chunk starting from `values`. */
static void scan_group(const Job *job, const char *const *from, char *const *to, int64_t first, char *values) {
    int64_t lengths[SEGMENTS], rest = job->scan->length - first;
    int number = 0;
    for (; number < SEGMENTS && rest > 0; number++, rest -= SCAN_CHUNK)
        lengths[number] = smaller(SCAN_CHUNK, rest);
    scan_segments(job, from, to, lengths, number, values);
}

/* Claims groups of chunks in order. A thread reduces the chunks of its group, waits for the carry of all groups
 * before it, publishes the carry of the next group, and scans its elements, which are then in cache. */
static void scan_chunks(void *context, int64_t begin, int64_t end, int thread) {
    Job *job = context;
    const ingot_scan *s = job->scan;
    int64_t size = job->kernel->value_size, total = s->before * s->behind * job->groups, number;
    for (int64_t worker = begin; worker < end; worker++)
        while (!ingot_is_stopped(&job->stopped, thread) && (number = atomic_fetch_add(&job->next, 1)) < total) {
            int64_t row = number / job->groups, group = number % job->groups, first = group * SEGMENTS * SCAN_CHUNK;
            char own[SEGMENTS * MAX_VALUE], starts[(SEGMENTS + 1) * MAX_VALUE], *to[SEGMENTS];
            const char *from[SEGMENTS];
            for (int64_t i = 0; i < SEGMENTS; i++) {
                int64_t at = first + i * SCAN_CHUNK;
                from[i] = row_of(&s->elements, s->behind, row) + at * s->elements.strides[1];
                to[i] = (char *)row_of(&s->results, s->behind, row) + at * s->results.strides[1];
            }
            job->kernel->start(own, SEGMENTS);
            job->kernel->start(starts, 1);
            scan_group(job, from, NULL, first, own);
            if (group > 0) {
                while (!atomic_load_explicit(&job->known[number], memory_order_acquire))
                    sched_yield();
                memcpy(starts, job->carries + number * size, (size_t)size);
            }
            for (int64_t i = 0; i < SEGMENTS; i++) {
                memcpy(starts + (i + 1) * size, starts + i * size, (size_t)size);
                job->kernel->follow(starts + (i + 1) * size, own + i * size);
            }
            if (group + 1 < job->groups) {
                memcpy(job->carries + (number + 1) * size, starts + SEGMENTS * size, (size_t)size);
                atomic_store_explicit(&job->known[number + 1], 1, memory_order_release);
            }
            scan_group(job, from, to, first, starts);
        }
}

static bool scan_long_rows(Job *job) {
    const ingot_scan *s = job->scan;
    job->groups = (s->length + SEGMENTS * SCAN_CHUNK - 1) / (SEGMENTS * SCAN_CHUNK);
    size_t count = (size_t)(s->before * s->behind * job->groups) + 1, size = count * (size_t)(job->kernel->value_size + 1);
    job->carries = ingot_allocate(size);
    if (job->carries == NULL)
        return false;
    job->known = (atomic_char *)(job->carries + count * (size_t)job->kernel->value_size);
    memset((void *)job->known, 0, count);
    atomic_init(&job->next, 0);
    atomic_init(&job->stopped, false);
    ingot_start_polling();
    ingot_parallel_for(scan_chunks, job, ingot_num_threads(), 1);
    ingot_release(job->carries, size);
    return !atomic_load(&job->stopped);
}

/* ---- columns ---- */

static void scan_columns(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const Job *job = context;
    const ingot_scan *s = job->scan;
    for (int64_t i = begin; i < end; i++) {
        int64_t first = i / job->tiles * s->behind + i % job->tiles * COLUMNS;
        int64_t width = smaller(COLUMNS, s->behind - i % job->tiles * COLUMNS);
        job->kernel->columns(row_of(&s->elements, s->behind, first), (char *)row_of(&s->results, s->behind, first),
                             s->elements.strides[1], s->results.strides[1], s->length, width);
    }
}

bool ingot_can_scan(ingot_scan_kind kind, int dtype) {
    return ingot_find_scan(kind, dtype) != NULL;
}

/* False, with an exception set, if a signal stopped it. */
static bool scan_all(ingot_loop_body body, Job *job, int64_t count, int64_t grain) {
    return ingot_interruptible_for(body, job, 0, count, grain, grain * ingot_num_threads()) == count;
}

/* The bytes of the last cache before memory; without limit where the system does not tell. What sysconf() tells may be
 * those of all caches of a processor together. */
static int64_t last_cache(void) {
    static _Atomic int64_t known; /* 0 at first */
    int64_t found = atomic_load(&known);
    if (found != 0)
        return found;
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/cache/index3/size", "r");
    char text[32] = "", *unit = text;
    if (file != NULL) {
        if (fgets(text, sizeof text, file) != NULL)
            found = strtoll(text, &unit, 10) * (*unit == 'K' ? 1 << 10 : *unit == 'M' ? 1 << 20 : 1);
        fclose(file);
    }
    found = found > 0 ? found : INT64_MAX;
    atomic_store(&known, found);
    return found;
}

/* How elements are scanned on this machine and in this layout. */
static void choose_segments(Job *job) {
    const ingot_scan *s = job->scan;
    ingot_scan_segments lanes = NULL;
#ifdef AVX512
    if (ingot_has_avx512())
        lanes = job->kernel->segments_in_lanes;
    else if (ingot_has_avx2())
        lanes = job->kernel->segments_in_few_lanes;
#endif
    job->itemsize = dtype_table[s->dtype]->itemsize;
    bool adjacent = s->elements.strides[1] == job->itemsize && s->results.strides[1] == job->itemsize;
    int64_t nbytes = 2 * s->before * s->behind * s->length * job->itemsize;
    job->in_lanes = adjacent && lanes != NULL;
    job->segments = job->in_lanes ? lanes : job->kernel->segments;
    job->past_caches = nbytes >= MIN_SCAN_PAST_CACHES && ingot_can_scan_past_caches() && nbytes > last_cache();
}

bool ingot_scan_rows(const ingot_scan *s) {
    Job job = {.scan = s, .kernel = ingot_find_scan(s->kind, s->dtype)};
    choose_segments(&job);
    int64_t rows = s->before * s->behind;
    if (s->behind >= MIN_SCANNED_COLUMNS && s->elements.strides[2] == job.itemsize && s->results.strides[2] == job.itemsize) {
        int64_t grain = SCAN_GRAIN / (s->length * smaller(s->behind, COLUMNS)) + 1;
        job.tiles = (s->behind + COLUMNS - 1) / COLUMNS;
        return scan_all(scan_columns, &job, s->before * job.tiles, grain);
    }
    bool is_long = s->length > SCAN_CHUNK, are_many = rows >= SEGMENTS * ingot_num_threads();
    if (is_long && (!are_many || s->length >= SEGMENTS * SCAN_CHUNK))
        return scan_long_rows(&job);
    if (s->length <= MAX_SHORT_SCAN && s->behind == 1 && job.kernel->rows != NULL)
        return scan_all(scan_short_rows, &job, rows, SCAN_GRAIN / s->length + 1);
    return scan_all(scan_rows, &job, (rows + SEGMENTS - 1) / SEGMENTS, SCAN_GRAIN / (s->length * SEGMENTS) + 1);
}
