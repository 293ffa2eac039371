/* How rows of Fourier transforms are distributed over threads, and copied where they are not contiguous. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "fourier/fourier.h"

#include <string.h>

#include "integers.h"
#include "memory/allocator.h"
#include "threads/interrupt.h"
#include "threads/machine.h"
#include "tuning.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") /* use FMA for x * y + z where available */
#endif

#define INLINE static inline __attribute__((always_inline))
#define MAX_LANES 16
#define LINE_FLOATS 16 /* of a cache line */

typedef struct {
    int64_t lanes;
    void (*transform_rows)(const ingot_fourier_plan *, ingot_fourier_kind, const float *const *, float *const *, int64_t,
                           const float *, float, float *);
    void (*transform_strided)(const ingot_fourier_plan *, ingot_fourier_kind, const float *, float *, int64_t, float, float *);
    void (*transform_columns)(const ingot_fourier_plan *, const float *, bool, float *, float *, int64_t, int64_t, float *);
    void (*transform_lines)(const ingot_fourier_plan *, const float *, const float *, float *, float, bool, int64_t, int64_t,
                            float *);
    void (*untangle)(const ingot_fourier_plan *, const float *, float *, int64_t, int64_t);
    void (*tangle)(const ingot_fourier_plan *, const float *, float *, int64_t, int64_t);
} ingot_fourier_loops;

#define SHUFFLE(a, b, lanes) SHUFFLE_LANES(a, b, lanes)
#define SHUFFLE_LANES(...) __builtin_shufflevector(__VA_ARGS__)

#if defined(__x86_64__) && defined(__GNUC__)
#define SEVERAL_MACHINES 1

#define MACHINE avx512
#define TARGET __attribute__((target("avx512f")))
#define LANES 16
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30
#define ODD 1, 3, 5, 7, 9, 11, 13, 15, 17, 19, 21, 23, 25, 27, 29, 31
#define LOW 0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23
#define HIGH 8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31
#define REVERSED 15, 14, 13, 12, 11, 10, 9, 8, 7, 6, 5, 4, 3, 2, 1, 0
#include "fourier/fourier_loop.h"

#define MACHINE avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define EVEN 0, 2, 4, 6, 8, 10, 12, 14
#define ODD 1, 3, 5, 7, 9, 11, 13, 15
#define LOW 0, 8, 1, 9, 2, 10, 3, 11
#define HIGH 4, 12, 5, 13, 6, 14, 7, 15
#define REVERSED 7, 6, 5, 4, 3, 2, 1, 0
#include "fourier/fourier_loop.h"
#endif

#define MACHINE any
#define TARGET
#define LANES 4
#define EVEN 0, 2, 4, 6
#define ODD 1, 3, 5, 7
#define LOW 0, 4, 1, 5
#define HIGH 2, 6, 3, 7
#define REVERSED 3, 2, 1, 0
#include "fourier/fourier_loop.h"

static const ingot_fourier_loops *loops_of(int64_t lanes) {
#ifdef SEVERAL_MACHINES
    if (lanes == loops_avx512.lanes)
        return &loops_avx512;
    if (lanes == loops_avx2.lanes)
        return &loops_avx2;
#endif
    return lanes == loops_any.lanes ? &loops_any : NULL;
}

int64_t ingot_fourier_lanes(int64_t most) {
    int vectors = ingot_machine_vectors();
    int64_t lanes = vectors == INGOT_AVX512 ? 16 : vectors == INGOT_AVX2 ? 8 : 4;
    while (lanes > most || loops_of(lanes) == NULL)
        lanes /= 2;
    return lanes;
}

typedef struct {
    const ingot_fourier *call;
    const ingot_fourier_loops *loops;
    int64_t threads;               /* for which there is scratch */
    int64_t rows, group;           /* in all, and those that a thread takes together */
    int64_t input, output;         /* numbers in a row, as on each side of the transform */
    int input_width, output_width; /* floats in a number */
    int64_t vectors;               /* floats of scratch for passes over vectors, of each thread */
    int64_t parts, staging;        /* floats for a row that is split, and for copies of strided rows */
    bool is_strided;               /* whether the lanes are adjacent columns */
    bool shares_rows;              /* whether threads share each row, one row after the other */
    float *scratch;
} Job;

typedef struct {
    const Job *job;
    const float *from;
    float *to;
    float *parts;
} Row;

static int64_t blocks_of(const Job *job, int64_t length) {
    return (length + job->loops->lanes - 1) / job->loops->lanes;
}

static float *vectors_of(const Job *job, int thread) {
    return job->scratch + thread * job->vectors;
}

/* ---- one long row ---- */

static float *tangled(const Row *row) {
    return row->parts + 2 * row->job->call->plan->length;
}

static void columns_body(void *context, int64_t begin, int64_t end, int thread) {
    const Row *row = context;
    const ingot_fourier *call = row->job->call;
    int64_t n = call->plan->length;
    const float *from = call->kind == FOURIER_REAL_BACKWARD ? tangled(row) : row->from;
    row->job->loops->transform_columns(call->plan, from, call->kind == FOURIER_BACKWARD, row->parts, row->parts + n, begin, end,
                                       vectors_of(row->job, thread));
}

static void lines_body(void *context, int64_t begin, int64_t end, int thread) {
    const Row *row = context;
    const ingot_fourier *call = row->job->call;
    int64_t n = call->plan->length;
    bool exchanged = call->kind == FOURIER_BACKWARD || call->kind == FOURIER_REAL_BACKWARD;
    float *to = call->kind == FOURIER_REAL_FORWARD ? tangled(row) : row->to;
    row->job->loops->transform_lines(call->plan, row->parts, row->parts + n, to, call->scale, exchanged, begin, end,
                                     vectors_of(row->job, thread));
}

static void tangle_body(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const Row *row = context;
    const ingot_fourier_plan *plan = row->job->call->plan;
    int64_t lanes = row->job->loops->lanes, last = smaller(1 + end * lanes, plan->length);
    if (row->job->call->kind == FOURIER_REAL_FORWARD)
        row->job->loops->untangle(plan, tangled(row), row->to, 1 + begin * lanes, last);
    else
        row->job->loops->tangle(plan, row->from, tangled(row), 1 + begin * lanes, last);
}

static void for_blocks(ingot_loop_body body, Row *row, int64_t length, int thread) {
    int64_t count = blocks_of(row->job, length);
    if (row->job->shares_rows)
        ingot_parallel_for(body, row, count, 1 + MIN_FOURIER_THREAD_WORK * count / row->job->call->plan->length);
    else
        body(row, 0, count, thread);
}

static void transform_long(Row *row, int thread) {
    const ingot_fourier *call = row->job->call;
    int64_t n = call->plan->length;
    if (call->kind == FOURIER_REAL_BACKWARD) {
        float first = row->from[0], last = row->from[2 * n], *x = tangled(row);
        for_blocks(tangle_body, row, n - 1, thread);
        x[0] = first - last;
        x[1] = first + last;
    }
    for_blocks(columns_body, row, call->plan->parts[1].length, thread);
    for_blocks(lines_body, row, call->plan->parts[0].length, thread);
    if (call->kind == FOURIER_REAL_FORWARD) {
        const float *x = tangled(row);
        for_blocks(tangle_body, row, n - 1, thread);
        row->to[0] = x[0] + x[1];
        row->to[2 * n] = x[0] - x[1];
        row->to[1] = row->to[2 * n + 1] = 0;
    }
}

/* ---- groups of rows ---- */

/* Where a row begins among those that run along the middle axis. */
static int64_t offset_of(const Job *job, int64_t row, int64_t length, int width) {
    int64_t behind = job->call->behind;
    return (row / behind * length * behind + row % behind) * width;
}

static inline void copy_number(float *to, const float *from, int width) {
    memcpy(to, from, width == 1 ? sizeof(float) : 2 * sizeof(float));
}

static void gather_rows(float *const *to, const float *const *from, int64_t rows, int64_t length, int64_t stride, int width) {
    for (int64_t i = 0; i < length; i++)
        for (int64_t row = 0; row < rows; row++)
            copy_number(to[row] + i * width, from[row] + i * stride * width, width);
}

static void scatter_rows(float *const *to, float *const *from, int64_t rows, int64_t length, int64_t stride, int width) {
    for (int64_t i = 0; i < length; i++)
        for (int64_t row = 0; row < rows; row++)
            copy_number(to[row] + i * stride * width, from[row] + i * width, width);
}

/* Asks for a row that comes next: the processor does not foresee that its columns are read. */
static void fetch(const float *row, int64_t length) {
    for (int64_t i = 0; i < length; i += LINE_FLOATS)
        __builtin_prefetch(row + i, 0, 2);
}

static void transform_group(const Job *job, int64_t group, int thread) {
    const ingot_fourier *call = job->call;
    int64_t first = group * job->group, rows = smaller(job->group, job->rows - first);
    float *parts = job->scratch + job->threads * job->vectors, *staging;
    const float *from[MAX_LANES];
    float *to[MAX_LANES], *copies[MAX_LANES], *results[MAX_LANES];
    parts += job->shares_rows ? 0 : thread * (job->parts + job->staging);
    staging = parts + job->parts;
    const float *end = call->from + job->rows * job->input * job->input_width;
    for (int64_t i = 0; i < rows; i++) {
        from[i] = call->from + offset_of(job, first + i, job->input, job->input_width);
        results[i] = to[i] = call->to + offset_of(job, first + i, job->output, job->output_width);
        copies[i] = staging + i * job->input * job->input_width;
    }
    if (job->staging > 0) {
        end = staging + rows * job->input * job->input_width;
        gather_rows(copies, from, rows, job->input, call->behind, job->input_width);
        for (int64_t i = 0; i < rows; i++) {
            from[i] = copies[i];
            results[i] = staging + rows * job->input * job->input_width + i * job->output * job->output_width;
        }
    }
    if (job->group == 1 && first + 1 < job->rows)
        fetch(call->from + (first + 1) * job->input * job->input_width, job->input * job->input_width);
    if (call->plan->is_split)
        for (int64_t i = 0; i < rows; i++) {
            Row row = {.job = job, .from = from[i], .to = results[i], .parts = parts};
            transform_long(&row, thread);
        }
    else
        job->loops->transform_rows(call->plan, call->kind, from, results, rows, end, call->scale, vectors_of(job, thread));
    if (job->staging > 0)
        scatter_rows(to, results, rows, job->output, call->behind, job->output_width);
}

/* ---- groups of adjacent columns; the last group of several overlaps the one before ---- */

static int64_t groups_of_columns(const Job *job) {
    return job->call->before * blocks_of(job, job->call->behind);
}

static void columns_groups_body(void *context, int64_t begin, int64_t end, int thread) {
    const Job *job = context;
    const ingot_fourier *call = job->call;
    int64_t behind = call->behind, lanes = job->loops->lanes, groups = blocks_of(job, behind);
    for (int64_t group = begin; group < end; group++) {
        int64_t column = smaller(group % groups * lanes, behind - lanes);
        const float *from = call->from + (group / groups * job->input * behind + column) * job->input_width;
        float *to = call->to + (group / groups * job->output * behind + column) * job->output_width;
        job->loops->transform_strided(call->plan, call->kind, from, to, behind, call->scale, vectors_of(job, thread));
    }
}

static void groups_body(void *context, int64_t begin, int64_t end, int thread) {
    for (int64_t group = begin; group < end; group++)
        transform_group(context, group, thread);
}

static bool run_groups(Job *job) {
    int64_t groups = job->is_strided ? groups_of_columns(job) : (job->rows + job->group - 1) / job->group;
    ingot_loop_body body = job->is_strided ? columns_groups_body : groups_body;
    if (!job->shares_rows) {
        int64_t grain = 1 + MIN_FOURIER_THREAD_WORK / (job->call->plan->length * job->group);
        return ingot_interruptible_for(body, job, 0, groups, grain, grain * job->threads) == groups;
    }
    ingot_start_polling();
    for (int64_t group = 0; group < groups; group++) {
        if (ingot_should_stop())
            return false;
        transform_group(job, group, 0);
    }
    return true;
}

bool ingot_transform(const ingot_fourier *call) {
    const ingot_fourier_plan *plan = call->plan;
    const ingot_fourier_loops *loops = loops_of(plan->lanes);
    int64_t n = plan->length, lanes = loops->lanes, threads = ingot_num_threads();
    int64_t longest = larger(plan->parts[0].length, plan->parts[1].length);
    int64_t room = larger(plan->parts[0].room, plan->parts[1].room);
    bool from_real = call->kind == FOURIER_REAL_FORWARD, to_real = call->kind == FOURIER_REAL_BACKWARD;
    Job job = {
        .call = call,
        .loops = loops,
        .threads = threads,
        .rows = call->before * call->behind,
        .group = call->behind == 1 && plan->is_split ? 1 : lanes,
        .input = from_real ? 2 * n : n + to_real,
        .output = to_real ? 2 * n : n + from_real,
        .input_width = from_real ? 1 : 2,
        .output_width = to_real ? 1 : 2,
        .vectors = (2 * (plan->is_split ? longest : n + 1 + lanes) + room) * 2 * lanes,
        .parts = plan->is_split ? 2 * n * (1 + plan->is_real) : 0,
    };
    job.is_strided = call->behind >= lanes && n <= MAX_STRIDED_FOURIER_LENGTH;
    if (job.is_strided) {
        job.vectors = (2 * (n + 1 + (plan->is_split ? longest : 0)) + room) * 2 * lanes;
        job.parts = 0;
    }
    job.staging =
        call->behind == 1 || job.is_strided ? 0 : job.group * (job.input * job.input_width + job.output * job.output_width);
    job.shares_rows = !job.is_strided && plan->is_split && n >= MIN_SHARED_FOURIER_LENGTH && job.rows < threads * job.group;
    job.vectors = (job.vectors + 2 * lanes - 1) / (2 * lanes) * (2 * lanes);
    int64_t each = (job.parts + job.staging) * (job.shares_rows ? 1 : threads);
    size_t size = (size_t)(threads * job.vectors + each) * sizeof(float);
    job.scratch = ingot_allocate(size);
    if (job.scratch == NULL)
        return false;
    bool done = run_groups(&job);
    ingot_release(job.scratch, size);
    return done;
}
