/* Small matrices one by one: solutions, inverses, determinants, Cholesky and LU factors, for single matrices and stacks of too
 * few for lanes. All but LU factors, whose pivots must be those of LAPACK, are computed in double precision, as NumPy does. */
#include "routines/routine.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "matrices/determinant.h"
#include "matrices/positions.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "tuning.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast,no-math-errno") /* FMA where available */
#endif

enum { PARTIAL_SUMS = 8 };

typedef enum { SOLVE, INVERT, SOLVE_LOWER, SOLVE_UPPER, DETERMINANTS, LOWER_FACTOR, UPPER_FACTOR, FACTORS } Task;
enum { MATRIX, RHS, RESULT, SECOND, PIVOTS, SCRATCH }; /* operands; SECOND: logarithms, or positions of rows */

INLINE double magnitude_double(double x) {
    return fabs(x);
}
INLINE float magnitude_float(float x) {
    return fabsf(x);
}

#define NUMBER double
#define NAME(name) name##_double
#include "matrices/dense_loop.h"
#undef NUMBER
#undef NAME
#define NUMBER float
#define NAME(name) name##_float
#include "matrices/dense_loop.h"
#undef NUMBER
#undef NAME

/* The sum of products of two rows, in as many partial sums as a wide vector has lanes. */
INLINE double dot(const double *a, const double *b, int64_t length) {
    double sums[PARTIAL_SUMS] = {0}, sum = 0;
    int64_t i = 0;
    for (; i + PARTIAL_SUMS <= length; i += PARTIAL_SUMS)
        for (int k = 0; k < PARTIAL_SUMS; k++)
            sums[k] += a[i + k] * b[i + k];
    for (; i < length; i++)
        sum += a[i] * b[i];
    for (int k = 0; k < PARTIAL_SUMS; k++)
        sum += sums[k];
    return sum;
}

/* Replaces the right-hand sides by the solutions for a triangle, from the first row or from the last row on. */
FOR_EACH_MACHINE static void substitute(const double *x, int64_t rows, double *rhs, int64_t rhs_columns, bool is_lower) {
    for (int64_t i = 0; i < rows; i++) {
        int64_t k = is_lower ? i : rows - 1 - i, first = is_lower ? 0 : k + 1, known = is_lower ? k : i;
        const double *row = x + k * rows;
        if (rhs_columns == 1) {
            rhs[k] = (rhs[k] - dot(row + first, rhs + first, known)) / row[k];
            continue;
        }
        for (int64_t r = first; r < first + known; r++)
            subtract_double(rhs + k * rhs_columns, row[r], rhs + r * rhs_columns, rhs_columns);
        for (int64_t c = 0; c < rhs_columns; c++)
            rhs[k * rhs_columns + c] /= row[k];
    }
}

/* Replaces the lower triangle by its Cholesky factor. Whether the matrix is positive definite. */
FOR_EACH_MACHINE static bool factorize_definite(double *x, int64_t rows) {
    for (int64_t r = 0; r < rows; r++) {
        double *row = x + r * rows;
        for (int64_t c = 0; c < r; c++)
            row[c] = (row[c] - dot(row, x + c * rows, c)) / x[c * rows + c];
        double square = row[r] - dot(row, row, r);
        if (!(square > 0))
            return false;
        row[r] = sqrt(square);
    }
    return true;
}

typedef struct {
    const RoutineCall *call;
    const RoutineMemory *memory;
    Task task;
    int64_t item, count, rows, columns, rhs_columns;
    atomic_bool failed;
} Job;

FOR_EACH_MACHINE static void load_numbers(double *to, const char *from, int64_t count, int64_t item) {
    if (item == sizeof *to)
        memcpy(to, from, (size_t)count * sizeof *to);
    else
        for (int64_t i = 0; i < count; i++)
            to[i] = (double)((const float *)(const void *)from)[i];
}

FOR_EACH_MACHINE static void store_numbers(char *to, const double *from, int64_t count, int64_t item) {
    if (item == sizeof *from)
        memcpy(to, from, (size_t)count * sizeof *from);
    else
        for (int64_t i = 0; i < count; i++)
            ((float *)(void *)to)[i] = (float)from[i];
}

static void transpose(double *x, int64_t rows) {
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = 0; c < r; c++) {
            double other = x[c * rows + r];
            x[c * rows + r] = x[r * rows + c];
            x[r * rows + c] = other;
        }
}

static bool is_nonsingular(const double *x, int64_t rows) {
    for (int64_t k = 0; k < rows; k++)
        if (x[k * (rows + 1)] == 0)
            return false;
    return true;
}

/* Solutions for a matrix or a triangle of it; whether it is regular. */
static bool solve(const Job *job, double *x, double *rhs, const char *given, uint32_t *pivots) {
    int64_t rows = job->rows, rhs_columns = job->rhs_columns;
    if (given != NULL)
        load_numbers(rhs, given, rows * rhs_columns, job->item);
    else
        for (int64_t r = 0; r < rows; r++)
            for (int64_t c = 0; c < rhs_columns; c++)
                rhs[r * rhs_columns + c] = r == c;
    bool is_lower = job->task == SOLVE_LOWER, is_triangle = is_lower || job->task == SOLVE_UPPER;
    if (!(is_triangle ? is_nonsingular(x, rows) : eliminate_double(x, rows, rows, rhs, rhs_columns, pivots)))
        return false;
    substitute(x, rows, rhs, rhs_columns, is_lower);
    return true;
}

static bool cholesky(const Job *job, double *x) {
    int64_t rows = job->rows;
    if (job->task == UPPER_FACTOR)
        transpose(x, rows);
    if (!factorize_definite(x, rows))
        return false;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t c = r + 1; c < rows; c++)
            x[r * rows + c] = 0;
    if (job->task == UPPER_FACTOR)
        transpose(x, rows);
    return true;
}

static void store_determinant(const Job *job, const double *x, const uint32_t *pivots, char *to, char *logarithm) {
    Determinant found = {.mantissa = 1};
    for (int64_t k = 0; k < job->rows; k++)
        ingot_multiply_determinant(&found, x[k * (job->rows + 1)], pivots[k] != k);
    double values[2] = {ingot_determinant(&found), 0};
    if (logarithm != NULL) {
        values[0] = ingot_sign_of_determinant(&found);
        values[1] = ingot_log_determinant(&found);
        store_numbers(logarithm, &values[1], 1, job->item);
    }
    store_numbers(to, values, 1, job->item);
}

/* LU factors in the precision of the elements. */
static void factorize(const Job *job, const char *from, char *to, uint32_t *pivots, uint32_t *positions) {
    int64_t rows = job->rows, columns = job->columns;
    memcpy(to, from, (size_t)(rows * columns * job->item));
    if (job->item == sizeof(float))
        eliminate_float((float *)(void *)to, rows, columns, (float *)(void *)to, 0, pivots);
    else
        eliminate_double((double *)(void *)to, rows, columns, (double *)(void *)to, 0, pivots);
    ingot_set_positions(pivots, rows < columns ? rows : columns, positions, rows);
}

/* Whether it succeeded. */
static bool process(const Job *job, int64_t i, int thread) {
    const RoutineCall *call = job->call;
    const char *from = ingot_operand_of(call, job->memory, MATRIX, i, thread);
    char *to = ingot_operand_of(call, job->memory, RESULT, i, thread);
    char *second = ingot_operand_of(call, job->memory, SECOND, i, thread);
    uint32_t *pivots = (uint32_t *)(void *)ingot_operand_of(call, job->memory, PIVOTS, i, thread);
    if (job->task == FACTORS) {
        factorize(job, from, to, pivots, (uint32_t *)(void *)second);
        return true;
    }
    int64_t elements = job->rows * job->rows;
    double *x = (double *)(void *)ingot_operand_of(call, job->memory, SCRATCH, i, thread), *rhs = x + elements;
    load_numbers(x, from, elements, job->item);
    switch (job->task) {
    case DETERMINANTS:
        eliminate_double(x, job->rows, job->rows, rhs, 0, pivots);
        store_determinant(job, x, pivots, to, second);
        return true;
    case LOWER_FACTOR:
    case UPPER_FACTOR:
        if (!cholesky(job, x))
            return false;
        store_numbers(to, x, elements, job->item);
        return true;
    default:
        if (!solve(job, x, rhs, ingot_operand_of(call, job->memory, RHS, i, thread), pivots))
            return false;
        store_numbers(to, rhs, job->rows * job->rhs_columns, job->item);
        return true;
    }
}

static void process_some(void *context, int64_t begin, int64_t end, int thread) {
    Job *job = context;
    for (int64_t i = begin; i < end; i++)
        if (!process(job, i, thread))
            atomic_store_explicit(&job->failed, true, memory_order_relaxed);
}

/* numbers: the task, bytes of an element, matrices, rows, columns, columns of the right-hand sides */
int ingot_call_dense(const RoutineCall *call, const RoutineMemory *memory) {
    const int64_t *n = call->numbers;
    Job job = {.call = call,
               .memory = memory,
               .task = (Task)n[0],
               .item = n[1],
               .count = n[2],
               .rows = n[3],
               .columns = n[4],
               .rhs_columns = n[5]};
    atomic_init(&job.failed, false);
    if (job.count == 1) {
        return process(&job, 0, 0) ? ROUTINE_DONE : ROUTINE_FAILED;
    }
    int64_t work = 1 + job.rows * job.columns * (job.columns + job.rhs_columns), grain = 1 + MIN_FACTORED_THREAD_WORK / work;
    if (ingot_interruptible_for(process_some, &job, 0, job.count, grain, grain * FIRST_BLOCK_GRAINS) < job.count)
        return ROUTINE_INTERRUPTED;
    return atomic_load(&job.failed) ? ROUTINE_FAILED : ROUTINE_DONE;
}
