/* Scans: how rows, chunks of long rows, and columns are distributed over threads. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "rows/scan.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "integers.h"
#include "memory/allocator.h"
#include "rows/scan_kernels.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "tuning.h"

typedef void (*Segments)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count, void *values);

typedef struct {
    const ingot_scan *scan;
    const ingot_scan_kernel *kernel;
    Segments segments; /* the version for this machine */
    int64_t tiles;     /* tiles of columns in each matrix */
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

/* ---- rows of one chunk at most ---- */

static void scan_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const Job *job = context;
    const ingot_scan *s = job->scan;
    int64_t in = s->elements.strides[1], out = s->results.strides[1];
    int64_t last = smaller(end * SEGMENTS, s->before * s->behind);
    for (int64_t row = begin * SEGMENTS; row < last;) {
        char values[SEGMENTS * MAX_VALUE], *to[SEGMENTS];
        const char *from[SEGMENTS];
        int64_t together = smaller(SEGMENTS, last - row);
        job->kernel->start(values, SEGMENTS);
        for (int64_t i = 0; i < together; i++) {
            from[i] = row_of(&s->elements, s->behind, row + i);
            to[i] = (char *)row_of(&s->results, s->behind, row + i);
        }
        if (together == SEGMENTS)
            job->segments(from, to, in, out, s->length, values);
        else
            for (int64_t i = 0; i < together; i++)
                job->kernel->segment(from[i], to[i], in, out, s->length, values + i * job->kernel->value_size);
        row += together;
    }
}

/* ---- long rows ---- */

/* Computes the result of each chunk of a group or, if `to` is given, the scan of each chunk starting from `values`. */
static void scan_group(const Job *job, const char *const *from, char *const *to, int64_t first, void *values) {
    const ingot_scan *s = job->scan;
    int64_t in = s->elements.strides[1], out = s->results.strides[1];
    if (first + SEGMENTS * SCAN_CHUNK <= s->length) {
        job->segments(from, to, in, out, SCAN_CHUNK, values);
        return;
    }
    for (int64_t i = 0; i < SEGMENTS && first + i * SCAN_CHUNK < s->length; i++) {
        int64_t count = smaller(SCAN_CHUNK, s->length - first - i * SCAN_CHUNK);
        job->kernel->segment(from[i], to == NULL ? NULL : to[i], in, out, count, (char *)values + i * job->kernel->value_size);
    }
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

bool ingot_scan_rows(const ingot_scan *s) {
    Job job = {.scan = s, .kernel = ingot_find_scan(s->kind, s->dtype)};
    job.segments = job.kernel->segments;
#ifdef AVX512
    if (job.kernel->segments_in_lanes != NULL && ingot_has_avx512())
        job.segments = job.kernel->segments_in_lanes;
    else if (job.kernel->segments_in_few_lanes != NULL && ingot_has_avx2())
        job.segments = job.kernel->segments_in_few_lanes;
#endif
    int64_t rows = s->before * s->behind, itemsize = dtype_table[s->dtype]->itemsize;
    if (s->behind >= MIN_SCANNED_COLUMNS && s->elements.strides[2] == itemsize && s->results.strides[2] == itemsize) {
        int64_t grain = SCAN_GRAIN / (s->length * smaller(s->behind, COLUMNS)) + 1;
        job.tiles = (s->behind + COLUMNS - 1) / COLUMNS;
        return scan_all(scan_columns, &job, s->before * job.tiles, grain);
    }
    if (s->length > SCAN_CHUNK)
        return scan_long_rows(&job);
    return scan_all(scan_rows, &job, (rows + SEGMENTS - 1) / SEGMENTS, SCAN_GRAIN / (s->length * SEGMENTS) + 1);
}
