/* LU factors of stacks of small matrices, and what follows from them, one matrix per vector lane, on the threads of the pool.
 */
#include "numpy_api.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "matrices/positions.h"
#include "memory/allocator.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "tuning.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") /* FMA where available */
#endif

#define TILE 4

typedef enum { FACTORS, SOLUTIONS, DETERMINANTS } Result;

typedef struct {
    Result result;
    const char *from, *sides; /* sides: of equations; NULL: unit matrices */
    char *to, *logarithms;    /* logarithms: of determinants, whose signs are in `to`; NULL: not wanted */
    uint32_t *pivots, *positions;
    int64_t count, rows, columns, wide; /* wide: columns of the right sides */
    int64_t lanes, stride;              /* stride: of rows in the lanes */
    char *scratch;
    size_t scratch_size; /* of each thread */
    atomic_bool singular;
} Systems;

#define NUMBER float
#define PLACE int32_t
#define MAGNITUDE INT32_MAX
#define NAME(name) name##_float
#undef LANES
#include "matrices/lu_loop.h"

#define NUMBER double
#define PLACE int64_t
#define MAGNITUDE INT64_MAX
#define NAME(name) name##_double
#include "matrices/lu_loop.h"

static void process_some(void *context, int64_t begin, int64_t end, int thread) {
    Systems *s = context;
    char *scratch = s->scratch + (size_t)thread * s->scratch_size;
    for (int64_t block = begin; block < end; block++) {
        int64_t first = block * s->lanes, count = s->count - first < s->lanes ? s->count - first : s->lanes;
        bool is_regular = s->lanes == 64 / (int64_t)sizeof(float) ? process_matrices_float(s, first, count, scratch)
                                                                  : process_matrices_double(s, first, count, scratch);
        if (!is_regular)
            atomic_store_explicit(&s->singular, true, memory_order_relaxed);
    }
}

/* Whether no matrix is singular, or -1 with an exception set. */
static int process(Systems *s, int item_size) {
    int64_t width = s->columns + s->wide, done = 0;
    s->stride = width | 1; /* columns whose elements are an even number of cache lines apart share few sets of L1 */
    s->lanes = 64 / item_size;
    s->scratch_size = (size_t)(s->rows * (s->stride + 2) + s->columns) * 64;
    atomic_init(&s->singular, false);
    int64_t blocks = (s->count + s->lanes - 1) / s->lanes;
    int64_t grain = 1 + MIN_FACTORED_THREAD_WORK / (s->rows * s->columns * width);
    size_t size = (size_t)ingot_num_threads() * s->scratch_size;
    s->scratch = ingot_allocate(size);
    if (s->scratch == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_BEGIN_ALLOW_THREADS
    done = ingot_interruptible_for(process_some, s, 0, blocks, grain, grain * FIRST_BLOCK_GRAINS);
    Py_END_ALLOW_THREADS
    ingot_release(s->scratch, size);
    return done < blocks ? -1 : !atomic_load(&s->singular);
}

static bool is_stack(PyArrayObject *x) {
    return PyArray_NDIM(x) == 3 && PyArray_ISCARRAY_RO(x) && PyArray_SIZE(x) > 0 &&
           (PyArray_TYPE(x) == NPY_FLOAT || PyArray_TYPE(x) == NPY_DOUBLE);
}

static bool is_of(PyArrayObject *x, int type, int axes, npy_intp first, npy_intp second, npy_intp third) {
    return PyArray_NDIM(x) == axes && PyArray_TYPE(x) == type && PyArray_ISCARRAY_RO(x) && PyArray_DIM(x, 0) == first &&
           PyArray_DIM(x, 1) == second && (axes == 2 || PyArray_DIM(x, 2) == third);
}

/* Whether it has room for a number for each matrix. */
static bool is_row(PyArrayObject *x, PyArrayObject *matrices) {
    return PyArray_NDIM(x) == 1 && PyArray_TYPE(x) == PyArray_TYPE(matrices) && PyArray_ISCARRAY(x) &&
           PyArray_DIM(x, 0) == PyArray_DIM(matrices, 0);
}

static Systems systems(Result result, PyArrayObject *x, PyArrayObject *to) {
    return (Systems){
        .result = result,
        .from = PyArray_BYTES(x),
        .to = PyArray_BYTES(to),
        .count = PyArray_DIM(x, 0),
        .rows = PyArray_DIM(x, 1),
        .columns = PyArray_DIM(x, 2),
    };
}

/* lu_in_lanes(matrices, factors, pivots, positions): as factorize_matrices of lapack.c, of row-major matrices. */
static PyObject *lu_in_lanes(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyArrayObject *x, *factors, *pivots, *positions;
    if (!PyArg_ParseTuple(arguments, "O!O!O!O!:lu_in_lanes", &PyArray_Type, &x, &PyArray_Type, &factors, &PyArray_Type, &pivots,
                          &PyArray_Type, &positions))
        return NULL;
    npy_intp count = is_stack(x) ? PyArray_DIM(x, 0) : 0, rows = count ? PyArray_DIM(x, 1) : 0;
    npy_intp columns = count ? PyArray_DIM(x, 2) : 0, rank = rows < columns ? rows : columns;
    if (count == 0 || !is_of(factors, PyArray_TYPE(x), 3, count, rows, columns) ||
        !is_of(pivots, NPY_UINT32, 2, count, rank, 0) || !is_of(positions, NPY_UINT32, 2, count, rows, 0) ||
        !PyArray_ISWRITEABLE(factors) || !PyArray_ISWRITEABLE(pivots) || !PyArray_ISWRITEABLE(positions))
        return PyErr_Format(PyExc_ValueError, "[lu_in_lanes] the memory does not have the sizes of the shape.");
    Systems s = systems(FACTORS, x, factors);
    s.pivots = PyArray_DATA(pivots);
    s.positions = PyArray_DATA(positions);
    if (process(&s, (int)PyArray_ITEMSIZE(x)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* solve_in_lanes(matrices, right sides, solutions) -> whether no matrix is singular; if one is, the solutions are undefined.
 * The right sides None are unit matrices. */
static PyObject *solve_in_lanes(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyArrayObject *x, *solutions;
    PyObject *sides;
    if (!PyArg_ParseTuple(arguments, "O!OO!:solve_in_lanes", &PyArray_Type, &x, &sides, &PyArray_Type, &solutions))
        return NULL;
    npy_intp count = is_stack(x) && is_stack(solutions) ? PyArray_DIM(x, 0) : 0, rows = count ? PyArray_DIM(x, 1) : 0;
    npy_intp wide = count ? PyArray_DIM(solutions, 2) : 0;
    if (count == 0 || PyArray_DIM(x, 2) != rows || !is_of(solutions, PyArray_TYPE(x), 3, count, rows, wide) ||
        !PyArray_ISWRITEABLE(solutions) ||
        !(sides == Py_None ? wide == rows
                           : PyArray_Check(sides) && is_of((PyArrayObject *)sides, PyArray_TYPE(x), 3, count, rows, wide)))
        return PyErr_Format(PyExc_ValueError, "[solve_in_lanes] the memory does not have the sizes of the shape.");
    Systems s = systems(SOLUTIONS, x, solutions);
    s.sides = sides == Py_None ? NULL : PyArray_BYTES((PyArrayObject *)sides);
    s.wide = wide;
    int is_regular = process(&s, (int)PyArray_ITEMSIZE(x));
    return is_regular < 0 ? NULL : PyBool_FromLong(is_regular);
}

/* determinants_in_lanes(matrices, determinants, None), or determinants_in_lanes(matrices, signs, logarithms) */
static PyObject *determinants_in_lanes(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyArrayObject *x, *found;
    PyObject *logarithms;
    if (!PyArg_ParseTuple(arguments, "O!O!O:determinants_in_lanes", &PyArray_Type, &x, &PyArray_Type, &found, &logarithms))
        return NULL;
    if (!is_stack(x) || PyArray_DIM(x, 1) != PyArray_DIM(x, 2) || !is_row(found, x) ||
        (logarithms != Py_None && !(PyArray_Check(logarithms) && is_row((PyArrayObject *)logarithms, x))))
        return PyErr_Format(PyExc_ValueError, "[determinants_in_lanes] the memory does not have the sizes of the shape.");
    Systems s = systems(DETERMINANTS, x, found);
    s.logarithms = logarithms == Py_None ? NULL : PyArray_BYTES((PyArrayObject *)logarithms);
    if (process(&s, (int)PyArray_ITEMSIZE(x)) < 0)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"lu_in_lanes", lu_in_lanes, METH_VARARGS, "lu_in_lanes(matrices, factors, pivots, positions): fills the last three"},
    {"solve_in_lanes", solve_in_lanes, METH_VARARGS,
     "solve_in_lanes(matrices, right sides, solutions) -> whether no matrix is singular: fills the solutions"},
    {"determinants_in_lanes", determinants_in_lanes, METH_VARARGS,
     "determinants_in_lanes(matrices, determinants, None), or determinants_in_lanes(matrices, signs, logarithms)"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_lu(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
