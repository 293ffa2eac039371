/* Decompositions of stacks of small matrices by LAPACK routines, called by address on the threads of the pool. */
#include "numpy_api.h"
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

/* Converts LAPACK's 1-based pivots to 0-based ones, and to the permutation of rows. */
static void set_positions(const Factors *factors, const int *found, uint32_t *pivots, uint32_t *positions, uint32_t *row_at) {
    int rank = factors->rows < factors->columns ? factors->rows : factors->columns;
    for (int i = 0; i < factors->rows; i++)
        row_at[i] = (uint32_t)i;
    for (int i = 0; i < rank; i++) {
        bool is_row = found[i] > i && found[i] <= factors->rows; /* among NaN, no element is the largest */
        uint32_t other = is_row ? (uint32_t)(found[i] - 1) : (uint32_t)i, row = row_at[i];
        pivots[i] = other;
        row_at[i] = row_at[other];
        row_at[other] = row;
    }
    for (int i = 0; i < factors->rows; i++)
        positions[row_at[i]] = (uint32_t)i;
}

static void factorize_some(void *context, int64_t begin, int64_t end, int Py_UNUSED(thread)) {
    const Factors *factors = context;
    int rows = factors->rows, columns = factors->columns, rank = rows < columns ? rows : columns, info;
    int found[MAX_FACTORED_LENGTH];
    uint32_t row_at[MAX_FACTORED_LENGTH];
    for (int64_t i = begin; i < end; i++) {
        factors->factorize(&rows, &columns, factors->matrices + (size_t)i * factors->matrix_bytes, &rows, found, &info);
        set_positions(factors, found, factors->pivots + i * rank, factors->positions + i * rows, row_at);
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

static PyMethodDef functions[] = {
    {"factorize_matrices", factorize_matrices, METH_VARARGS,
     "factorize_matrices(getrf, matrices, pivots, positions): LU factors of a stack, in place"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_lapack(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
