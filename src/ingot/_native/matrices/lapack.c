/* Decompositions of stacks of small matrices by LAPACK routines, called by address on the threads of the pool. */
#include "numpy_api.h"

#include "matrices/positions.h"
#include "threads/interrupt.h"
#include "tuning.h"

/* getrf(rows, columns, matrix, leading dimension, pivots, info) */
typedef void (*Factorize)(int *, int *, void *, int *, int *, int *);

typedef struct {
    Factorize factorize;
    char *matrices;
    size_t matrix_bytes;
    int rows, columns;
    uint32_t *pivots, *positions;
} Factors;

/* Converts LAPACK's 1-based pivots to 0-based ones. */
static void set_pivots(const int *found, int rank, int rows, uint32_t *pivots) {
    for (int i = 0; i < rank; i++) {
        bool is_row = found[i] > i && found[i] <= rows; /* among NaN, no element is the largest */
        pivots[i] = is_row ? (uint32_t)(found[i] - 1) : (uint32_t)i;
    }
}

static void factorize_some(void *context, int64_t begin, int64_t end, int Py_UNUSED(thread)) {
    const Factors *factors = context;
    int rows = factors->rows, columns = factors->columns, rank = rows < columns ? rows : columns, info;
    int found[MAX_FACTORED_LENGTH];
    for (int64_t i = begin; i < end; i++) {
        factors->factorize(&rows, &columns, factors->matrices + (size_t)i * factors->matrix_bytes, &rows, found, &info);
        set_pivots(found, rank, rows, factors->pivots + i * rank);
        ingot_set_positions(factors->pivots + i * rank, rank, factors->positions + i * rows, rows);
    }
}

static bool is_of(PyArrayObject *x, npy_intp count, npy_intp length) {
    return PyArray_NDIM(x) == 2 && PyArray_TYPE(x) == NPY_UINT32 && PyArray_IS_C_CONTIGUOUS(x) && PyArray_DIM(x, 0) == count &&
           PyArray_DIM(x, 1) == length;
}

/* factorize_matrices(getrf, matrices, pivots, positions): LU factors of column-major matrices, in place; the row that each row
 * was exchanged with, in order, and the position of each row after all exchanges. */
static PyObject *factorize_matrices(PyObject *Py_UNUSED(module), PyObject *arguments) {
    unsigned long long address;
    PyArrayObject *matrices, *pivots, *positions;
    if (!PyArg_ParseTuple(arguments, "KO!O!O!:factorize_matrices", &address, &PyArray_Type, &matrices, &PyArray_Type, &pivots,
                          &PyArray_Type, &positions))
        return NULL;
    bool fits = PyArray_NDIM(matrices) == 3 && PyArray_IS_C_CONTIGUOUS(matrices) && PyArray_SIZE(matrices) > 0;
    npy_intp count = fits ? PyArray_DIM(matrices, 0) : 0, columns = fits ? PyArray_DIM(matrices, 1) : 0;
    npy_intp rows = fits ? PyArray_DIM(matrices, 2) : 0;
    fits = fits && rows <= MAX_FACTORED_LENGTH && columns <= MAX_FACTORED_LENGTH && is_of(positions, count, rows) &&
           is_of(pivots, count, rows < columns ? rows : columns);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "[factorize_matrices] the memory does not have the sizes of the shape.");
    Factors factors = {
        .factorize = (Factorize)(uintptr_t)address,
        .matrices = PyArray_BYTES(matrices),
        .matrix_bytes = (size_t)(rows * columns * PyArray_ITEMSIZE(matrices)),
        .rows = (int)rows,
        .columns = (int)columns,
        .pivots = PyArray_DATA(pivots),
        .positions = PyArray_DATA(positions),
    };
    int64_t work = rows * columns * (rows < columns ? rows : columns), done;
    int64_t grain = 1 + MIN_FACTORED_THREAD_WORK / work;
    Py_BEGIN_ALLOW_THREADS
    done = ingot_interruptible_for(factorize_some, &factors, 0, count, grain, grain * FIRST_BLOCK_GRAINS);
    Py_END_ALLOW_THREADS
    if (done < count)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- any routine ---- */

enum { MAX_ROUTINE_ARGUMENTS = 14 };

/* An argument of a routine, all of which are addresses: that of one matrix of a stack, or of memory that each thread has. */
typedef struct {
    char *data;
    Py_ssize_t step; /* from matrix to matrix, or from thread to thread; 0: all share it */
    int per_thread;
} RoutineArgument;

typedef struct {
    void *routine;
    int count;
    RoutineArgument arguments[MAX_ROUTINE_ARGUMENTS];
} Calls;

#define P void *
static void call_routine(void *routine, int count, void **a) {
    switch (count) {
    case 6:
        ((void (*)(P, P, P, P, P, P))routine)(a[0], a[1], a[2], a[3], a[4], a[5]);
        break;
    case 8:
        ((void (*)(P, P, P, P, P, P, P, P))routine)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7]);
        break;
    case 9:
        ((void (*)(P, P, P, P, P, P, P, P, P))routine)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8]);
        break;
    case 11:
        ((void (*)(P, P, P, P, P, P, P, P, P, P, P))routine)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8], a[9], a[10]);
        break;
    default: /* 14 */
        ((void (*)(P, P, P, P, P, P, P, P, P, P, P, P, P, P))routine)(a[0], a[1], a[2], a[3], a[4], a[5], a[6], a[7], a[8],
                                                                      a[9], a[10], a[11], a[12], a[13]);
    }
}
#undef P

static void call_some(void *context, int64_t begin, int64_t end, int thread) {
    const Calls *calls = context;
    for (int64_t i = begin; i < end; i++) {
        void *addresses[MAX_ROUTINE_ARGUMENTS] = {NULL};
        for (int k = 0; k < calls->count; k++) {
            const RoutineArgument *argument = &calls->arguments[k];
            addresses[k] = argument->data + (argument->per_thread ? thread : i) * argument->step;
        }
        call_routine(calls->routine, calls->count, addresses);
    }
}

/* Reads (ndarray, step, per thread); the array must hold that many steps. */
static int read_argument(PyObject *tuple, RoutineArgument *argument, Py_ssize_t matrices) {
    PyArrayObject *array;
    if (!PyTuple_Check(tuple) ||
        !PyArg_ParseTuple(tuple, "O!np", &PyArray_Type, &array, &argument->step, &argument->per_thread))
        return -1;
    Py_ssize_t steps = argument->per_thread ? ingot_num_threads() : matrices;
    if (!PyArray_IS_C_CONTIGUOUS(array) || argument->step < 0 || PyArray_NBYTES(array) == 0 ||
        (argument->step > 0 && PyArray_NBYTES(array) / argument->step < steps)) {
        PyErr_SetString(PyExc_ValueError, "[call_lapack] an argument has less memory than the stack needs.");
        return -1;
    }
    argument->data = PyArray_BYTES(array);
    return 0;
}

/* call_lapack(address, matrices, work, arguments): calls a routine for each matrix of a stack. */
static PyObject *call_lapack(PyObject *Py_UNUSED(module), PyObject *values) {
    unsigned long long address;
    long long matrices, work;
    PyObject *arguments;
    if (!PyArg_ParseTuple(values, "KLLO!:call_lapack", &address, &matrices, &work, &PyTuple_Type, &arguments))
        return NULL;
    Calls calls = {.routine = (void *)(uintptr_t)address, .count = (int)PyTuple_GET_SIZE(arguments)};
    bool is_known = calls.count == 6 || calls.count == 8 || calls.count == 9 || calls.count == 11 || calls.count == 14;
    if (!is_known || matrices < 0 || work < 1)
        return PyErr_Format(PyExc_ValueError, "[call_lapack] no routine takes %d arguments.", calls.count);
    for (int k = 0; k < calls.count; k++) {
        if (read_argument(PyTuple_GET_ITEM(arguments, k), &calls.arguments[k], (Py_ssize_t)matrices) < 0)
            return NULL;
    }
    int64_t grain = 1 + MIN_FACTORED_THREAD_WORK / work, done;
    Py_BEGIN_ALLOW_THREADS
    done = ingot_interruptible_for(call_some, &calls, 0, matrices, grain, grain * FIRST_BLOCK_GRAINS);
    Py_END_ALLOW_THREADS
    if (done < matrices)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"factorize_matrices", factorize_matrices, METH_VARARGS,
     "factorize_matrices(getrf, matrices, pivots, positions): LU factors of a stack, in place"},
    {"call_lapack", call_lapack, METH_VARARGS,
     "call_lapack(address, matrices, work, arguments): calls a routine of LAPACK for each matrix of a stack, on all threads. "
     "Arguments are (array, bytes from matrix to matrix or from thread to thread, whether from thread to thread)"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_lapack(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
