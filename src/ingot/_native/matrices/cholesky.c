/* Cholesky factors of stacks of small matrices, one matrix per vector lane, on the threads of the pool. */
#include "numpy_api.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

#include "memory/allocator.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "tuning.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast,no-math-errno") /* FMA where available, and vectors of square roots */
#endif

#define TILE 4

typedef struct {
    const char *from;
    char *to;
    int64_t count, length, padded; /* padded: the next multiple of TILE */
    int64_t lanes;
    bool upper; /* the upper triangles are read and written */
    char *scratch;
    size_t scratch_size; /* of each thread */
    atomic_bool failed;
} Factors;

#define NUMBER float
#define NAME(name) name##_float
#define ROOT(x) sqrtf(x)
#undef LANES
#include "matrices/cholesky_loop.h"

#define NUMBER double
#define NAME(name) name##_double
#define ROOT(x) sqrt(x)
#include "matrices/cholesky_loop.h"

static void factorize_some(void *context, int64_t begin, int64_t end, int thread) {
    Factors *f = context;
    char *scratch = f->scratch + (size_t)thread * f->scratch_size;
    for (int64_t block = begin; block < end && !atomic_load_explicit(&f->failed, memory_order_relaxed); block++) {
        int64_t first = block * f->lanes, count = f->count - first < f->lanes ? f->count - first : f->lanes;
        bool is_definite = f->lanes == 64 / (int64_t)sizeof(float) ? factorize_matrices_float(f, first, count, scratch)
                                                                   : factorize_matrices_double(f, first, count, scratch);
        if (!is_definite)
            atomic_store_explicit(&f->failed, true, memory_order_relaxed);
    }
}

static bool are_matrices(PyArrayObject *x, PyArrayObject *like) {
    return PyArray_NDIM(x) == 3 && PyArray_ISCARRAY_RO(x) && PyArray_DIM(x, 1) == PyArray_DIM(x, 2) && PyArray_SIZE(x) > 0 &&
           (PyArray_TYPE(x) == NPY_FLOAT || PyArray_TYPE(x) == NPY_DOUBLE) && PyArray_TYPE(like) == PyArray_TYPE(x) &&
           PyArray_DIM(x, 0) == PyArray_DIM(like, 0) && PyArray_DIM(x, 1) == PyArray_DIM(like, 1);
}

/* factorize_definite(matrices, factors, upper) -> whether all matrices are positive definite; if not, the factors are
 * undefined */
static PyObject *factorize_definite(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyArrayObject *x, *out;
    int upper;
    if (!PyArg_ParseTuple(arguments, "O!O!p:factorize_definite", &PyArray_Type, &x, &PyArray_Type, &out, &upper))
        return NULL;
    if (PyArray_NDIM(out) != 3 || !are_matrices(x, out) || !are_matrices(out, x) || !PyArray_ISWRITEABLE(out))
        return PyErr_Format(PyExc_ValueError, "[factorize_definite] the memory does not have the sizes of the shape.");
    int64_t n = PyArray_DIM(x, 1), padded = (n + TILE - 1) / TILE * TILE;
    Factors f = {
        .from = PyArray_BYTES(x),
        .to = PyArray_BYTES(out),
        .count = PyArray_DIM(x, 0),
        .length = n,
        .padded = padded,
        .lanes = 64 / PyArray_ITEMSIZE(x),
        .upper = upper,
        .scratch_size = (size_t)(padded * padded) * 64,
    };
    atomic_init(&f.failed, false);
    int64_t blocks = (f.count + f.lanes - 1) / f.lanes, grain = 1 + MIN_FACTORED_THREAD_WORK / (n * n * n), done = 0;
    size_t size = (size_t)ingot_num_threads() * f.scratch_size;
    f.scratch = ingot_allocate(size);
    if (f.scratch == NULL)
        return PyErr_NoMemory();
    Py_BEGIN_ALLOW_THREADS
    done = ingot_interruptible_for(factorize_some, &f, 0, blocks, grain, grain * FIRST_BLOCK_GRAINS);
    Py_END_ALLOW_THREADS
    ingot_release(f.scratch, size);
    return done < blocks ? NULL : PyBool_FromLong(!atomic_load(&f.failed));
}

static PyMethodDef functions[] = {
    {"factorize_definite", factorize_definite, METH_VARARGS,
     "factorize_definite(matrices, factors, upper) -> whether all are positive definite: fills the factors"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_cholesky(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
