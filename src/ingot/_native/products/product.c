/* Matrix products by BLAS.
 *
 * BLAS libraries spread one product over threads of their own, which spin while idle and wait for each other at the end:
 * between ingot's own loops, and above all on a busy machine, that costs more than the product. So BLAS stays on the
 * calling thread during a product, and each thread of the pool computes some tiles of the result. */
#include "products/product.h"

#include <pthread.h>

#include "integers.h"
#include "numpy_api.h"
#include "products/halves.h"
#include "threads/interrupt.h"
#include "threads/pool.h"
#include "tuning.h"

/* The Fortran interface. Integers are passed as 64 bits: a library that takes 32 reads their low half, which comes first
 * on little-endian machines; planning rejects lengths that do not fit. */
typedef void (*Gemm)(const char *, const char *, const int64_t *, const int64_t *, const int64_t *, const void *, const void *,
                     const int64_t *, const void *, const int64_t *, const void *, void *, const int64_t *);

typedef void (*Gemv)(const char *, const int64_t *, const int64_t *, const void *, const void *, const int64_t *, const void *,
                     const int64_t *, const void *, void *, const int64_t *);

static struct {
    Gemm sgemm, dgemm, cgemm;
    Gemv sgemv, dgemv, cgemv;
    int (*get_threads)(void); /* NULL if the library's thread count cannot be set: it then parallelises products itself */
    void (*set_threads)(int);
} blas;

#define TILE_ALIGNMENT 16 /* tiles start at multiples of the vector width */

/* ---- keeping BLAS on the calling thread ---- */

static pthread_mutex_t holding = PTHREAD_MUTEX_INITIALIZER;
static int holders, threads_before;

void ingot_hold_blas_threads(void) {
    if (blas.set_threads == NULL)
        return;
    pthread_mutex_lock(&holding);
    if (holders++ == 0) {
        threads_before = blas.get_threads();
        if (threads_before != 1)
            blas.set_threads(1);
    }
    pthread_mutex_unlock(&holding);
}

void ingot_release_blas_threads(void) {
    if (blas.set_threads == NULL)
        return;
    pthread_mutex_lock(&holding);
    if (--holders == 0 && threads_before != 1)
        blas.set_threads(threads_before);
    pthread_mutex_unlock(&holding);
}

static void after_fork_in_child(void) {
    pthread_mutex_init(&holding, NULL);
    if (holders > 0 && threads_before != 1) /* the threads that hold it do not exist in the child */
        blas.set_threads(threads_before);
    holders = 0;
}

/* ---- tiles ---- */

typedef struct {
    const Product *product;
    char *operands[3];
    int64_t across, along; /* the number of tiles of each result, along m and along n */
    bool adds;             /* accumulate: a later block along k */
} Sharing;

static int64_t tile_begin(int64_t tile, int64_t tiles, int64_t length) {
    return tile == tiles ? length : tile * length / tiles / TILE_ALIGNMENT * TILE_ALIGNMENT;
}

/* The addresses of the three matrices at a position of the stack. */
static void find_matrices(const Sharing *sharing, int64_t position, char *pointers[3]) {
    const Product *product = sharing->product;
    for (int operand = 0; operand < 3; operand++) {
        pointers[operand] = sharing->operands[operand];
        int64_t rest = position;
        for (int axis = product->stack_axes - 1; axis >= 0; axis--) {
            pointers[operand] += rest % product->lengths[axis] * product->strides[operand][axis];
            rest /= product->lengths[axis];
        }
    }
}

static void multiply_tile(const Sharing *sharing, int64_t position, int64_t row, int64_t column) {
    static const float one_float[2] = {1, 0}, zero_float[2] = {0, 0};
    static const double one_double = 1, zero_double = 0;
    const Product *product = sharing->product;
    char *pointers[3];
    find_matrices(sharing, position, pointers);
    bool wide = product->element == 'd';
    int64_t size = product->element == 's' ? 4 : 8;
    int64_t top = tile_begin(row, sharing->across, product->m);
    int64_t left = tile_begin(column, sharing->along, product->n);
    int64_t m = tile_begin(row + 1, sharing->across, product->m) - top;
    int64_t n = tile_begin(column + 1, sharing->along, product->n) - left;
    if (m == 0 || n == 0)
        return;
    pointers[0] += size * top * (product->transpose[0] == 'N' ? 1 : product->lda);
    pointers[1] += size * left * (product->transpose[1] == 'N' ? product->ldb : 1);
    pointers[2] += size * (top + left * product->ldc);
    const void *one = wide ? (const void *)&one_double : one_float;
    const void *zero = sharing->adds ? one : wide ? (const void *)&zero_double : zero_float; /* beta */
    Gemv gemv = wide ? blas.dgemv : product->element == 's' ? blas.sgemv : blas.cgemv;
    const char *transpose = product->transpose;
    const int64_t next = 1;
    /* A result of one row or column: gemm would pack the other matrix into blocks first. Empty sums are left to gemm,
     * because gemv does not write them. */
    if (m == 1 && product->k > 0) {
        const int64_t *step = transpose[0] == 'N' ? &product->lda : &next;
        bool stored_by_result = transpose[1] == 'N';
        gemv(stored_by_result ? "T" : "N", stored_by_result ? &product->k : &n, stored_by_result ? &n : &product->k, one,
             pointers[1], &product->ldb, pointers[0], step, zero, pointers[2], &product->ldc);
        return;
    }
    if (n == 1 && product->k > 0) {
        const int64_t *step = transpose[1] == 'N' ? &next : &product->ldb;
        bool stored_by_result = transpose[0] == 'N';
        gemv(&transpose[0], stored_by_result ? &m : &product->k, stored_by_result ? &product->k : &m, one, pointers[0],
             &product->lda, pointers[1], step, zero, pointers[2], &next);
        return;
    }
    Gemm gemm = wide ? blas.dgemm : product->element == 's' ? blas.sgemm : blas.cgemm;
    gemm(&transpose[0], &transpose[1], &m, &n, &product->k, one, pointers[0], &product->lda, pointers[1], &product->ldb, zero,
         pointers[2], &product->ldc);
}

static void multiply_tiles(void *context, int64_t begin, int64_t end, int Py_UNUSED(thread)) {
    const Sharing *sharing = context;
    int64_t tiles = sharing->across * sharing->along;
    for (int64_t i = begin; i < end; i++)
        multiply_tile(sharing, i / tiles, i % tiles / sharing->along, i % sharing->along);
}

/* Divides a result into `tiles` that are as square as possible, which minimises reads of a and b. */
static void divide(Sharing *sharing, int64_t tiles) {
    double best = 0;
    for (int64_t across = 1; across <= tiles; across++) {
        if (tiles % across != 0)
            continue;
        double sides =
            (double)sharing->product->m / (double)across + (double)sharing->product->n * (double)across / (double)tiles;
        if (across == 1 || sides < best) {
            best = sides;
            sharing->across = across;
            sharing->along = tiles / across;
        }
    }
}

static int64_t stack_size(const Product *product) {
    int64_t size = 1;
    for (int axis = 0; axis < product->stack_axes; axis++)
        size *= product->lengths[axis];
    return size;
}

static double work_of(const Product *product) {
    return (double)product->m * (double)product->n * (double)product->k;
}

/* BLAS chooses its algorithm by the sizes of tiles, which affects the last bits. Where results must not depend on the
 * number of threads, the number of tiles is fixed. */
static bool deterministic;
#define DETERMINISTIC_TILES 8

/* Divides each result so that every thread gets a tile. */
static Sharing share(const Product *product, char *const operands[3], int64_t stack) {
    Sharing sharing = {product, {operands[0], operands[1], operands[2]}, 1, 1, false};
    int64_t threads = blas.set_threads == NULL ? 1 : deterministic ? DETERMINISTIC_TILES : ingot_num_threads();
    if (threads > 1 && stack < threads && work_of(product) * (double)stack >= 2.0 * MIN_PRODUCT_THREAD_WORK) {
        int64_t tiles = (threads + stack - 1) / stack;
        int64_t longer = product->m > product->n ? product->m : product->n;
        divide(&sharing, longer / tiles >= PRODUCT_SPLIT_SIDE ? 2 * tiles : tiles);
    }
    return sharing;
}

/* Stacks of small matrices, possibly many. */
static bool multiply_stack(const Product *product, char *const operands[3], Progress *progress) {
    int64_t stack = stack_size(product);
    Sharing sharing = share(product, operands, stack);
    if (progress->across > 0) { /* resumed after an interruption: the number of threads may have changed */
        sharing.across = progress->across;
        sharing.along = progress->along;
    }
    progress->across = sharing.across;
    progress->along = sharing.along;
    int64_t tiles = sharing.across * sharing.along, count = stack * tiles;
    double work = work_of(product) + 1, fitting = (double)MAX_PRODUCT_BLOCK_WORK / 4 * (double)tiles / work;
    int64_t grain = tiles > 1 ? 1 : (int64_t)(MIN_PRODUCT_THREAD_WORK / work) + 1;
    int64_t first = fitting < (double)count ? (int64_t)fitting : count;
    if (blas.set_threads == NULL)
        grain = count; /* BLAS uses threads of its own */
    else if (first < ingot_num_threads())
        first = ingot_num_threads();
    progress->done = ingot_interruptible_for(multiply_tiles, &sharing, progress->done, count, grain, first);
    return progress->done == count;
}

/* The lengths of blocks that are computed between two polls for signals. They depend on the product alone, so that the
 * order of summation does not depend on the number of threads. */
static void choose_block(const Product *product, int64_t block[3]) {
    bool vector = product->m == 1 || product->n == 1;
    double most = vector                    ? (double)MAX_GEMV_BLOCK_WORK
                  : product->element == 's' ? (double)MAX_PRODUCT_BLOCK_WORK
                                            : (double)MAX_PRODUCT_BLOCK_WORK / 4;
    block[0] = product->m, block[1] = product->n, block[2] = product->k;
    while ((double)block[0] * (double)block[1] * (double)block[2] > most) {
        int longer = block[1] > block[0];
        int axis = block[longer] > PRODUCT_BLOCK_SIDE || block[2] <= PRODUCT_BLOCK_DEPTH ? longer : 2;
        block[axis] = ((block[axis] + 1) / 2 + TILE_ALIGNMENT - 1) / TILE_ALIGNMENT * TILE_ALIGNMENT;
    }
}

/* Large matrices, block by block, along all of m, n and k. */
static bool multiply_in_blocks(const Product *whole, char *const operands[3], const int64_t block[3], Progress *progress) {
    int64_t size = whole->element == 's' ? 4 : 8;
    int64_t rows = (whole->m + block[0] - 1) / block[0], columns = (whole->n + block[1] - 1) / block[1];
    int64_t depths = (whole->k + block[2] - 1) / block[2];
    int64_t count = stack_size(whole) * rows * columns * depths;
    for (; progress->done < count; progress->done++) {
        if (progress->done > 0 && ingot_should_stop())
            return false;
        int64_t rest = progress->done, depth = rest % depths * block[2];
        rest /= depths;
        int64_t left = rest % columns * block[1];
        rest /= columns;
        int64_t top = rest % rows * block[0], position = rest / rows;
        Product part = *whole;
        part.stack_axes = 0;
        part.m = smaller(block[0], whole->m - top);
        part.n = smaller(block[1], whole->n - left);
        part.k = smaller(block[2], whole->k - depth);
        char *pointers[3] = {operands[0], operands[1], operands[2]};
        for (int axis = whole->stack_axes - 1; axis >= 0; axis--) {
            for (int operand = 0; operand < 3; operand++)
                pointers[operand] += position % whole->lengths[axis] * whole->strides[operand][axis];
            position /= whole->lengths[axis];
        }
        bool plain_a = whole->transpose[0] == 'N', plain_b = whole->transpose[1] == 'N';
        pointers[0] += size * (top * (plain_a ? 1 : whole->lda) + depth * (plain_a ? whole->lda : 1));
        pointers[1] += size * (left * (plain_b ? whole->ldb : 1) + depth * (plain_b ? 1 : whole->ldb));
        pointers[2] += size * (top + left * whole->ldc);
        Sharing sharing = share(&part, pointers, 1);
        sharing.adds = depth > 0;
        ingot_parallel_for(multiply_tiles, &sharing, sharing.across * sharing.along, 1);
    }
    return true;
}

/* ---- operands that BLAS cannot read ---- */

#define FEW_BYTES 16384 /* on the C stack */

static bool is_half(const Product *product) {
    return product->element == 'h' || product->element == 'b';
}

/* Whether an operand has neither adjacent elements nor columns that do not overlap. */
static bool needs_copies(const Product *product) {
    int64_t a = product->transpose[0] == 'N' ? product->m : product->k;
    int64_t b = product->transpose[1] == 'N' ? product->k : product->n;
    return product->steps[0] != 1 || product->steps[1] != 1 || product->lda < a || product->ldb < b;
}

/* Copies an operand, column-major in `runs` of `length` elements, without gaps and as BLAS reads it. */
static void copy_operand(const Product *product, int operand, const char *from, int64_t runs, int64_t length, char *to) {
    int64_t stride = operand == 0 ? product->lda : product->ldb, step = product->steps[operand];
    if (is_half(product))
        ingot_widen(product->element, (const uint16_t *)(const void *)from, runs, length, stride, step, (float *)(void *)to);
    else if (product->element == 's')
        ingot_copy_words((const uint32_t *)(const void *)from, runs, length, stride, step, (uint32_t *)(void *)to);
    else
        ingot_copy_pairs((const uint64_t *)(const void *)from, runs, length, stride, step, (uint64_t *)(void *)to);
}

/* Small products of half types, which are computed in float32, or of operands with any strides: of copies. */
static bool multiply_copies(const Product *given, char *const operands[3]) {
    Product product = *given;
    bool plain_a = given->transpose[0] == 'N', plain_b = given->transpose[1] == 'N', half = is_half(given);
    int64_t m = given->m, n = given->n, k = given->k, size = half || given->element == 's' ? 4 : 8;
    product.element = half ? 's' : given->element, product.stack_axes = 0;
    product.lda = larger(1, plain_a ? m : k), product.ldb = larger(1, plain_b ? k : n);
    product.ldc = half ? larger(1, m) : given->ldc;
    _Alignas(64) char few[FEW_BYTES];
    char *room = few;
    size_t nbytes = (size_t)((m * k + k * n + (half ? m * n : 0)) * size);
    if (nbytes > sizeof few && (room = PyMem_RawMalloc(nbytes)) == NULL) {
        PyGILState_STATE state = PyGILState_Ensure();
        PyErr_NoMemory();
        PyGILState_Release(state);
        return false;
    }
    char *a = room, *b = a + m * k * size, *c = b + k * n * size;
    const Sharing stack = {given, {operands[0], operands[1], operands[2]}, 1, 1, false};
    char *pointers[3], *before[2] = {NULL, NULL};
    for (int64_t position = 0, end = stack_size(given); position < end; position++) {
        find_matrices(&stack, position, pointers);
        if (pointers[0] != before[0])
            copy_operand(given, 0, pointers[0], plain_a ? k : m, plain_a ? m : k, a);
        if (pointers[1] != before[1])
            copy_operand(given, 1, pointers[1], plain_b ? n : k, plain_b ? k : n, b);
        before[0] = pointers[0], before[1] = pointers[1];
        const Sharing alone = {&product, {a, b, half ? c : pointers[2]}, 1, 1, false};
        multiply_tile(&alone, 0, 0, 0);
        if (half)
            ingot_narrow(given->element, (float *)(void *)c, n, m, given->ldc, (uint16_t *)(void *)pointers[2]);
    }
    if (room != few)
        PyMem_RawFree(room);
    return true;
}

bool ingot_multiply(const Product *product, char *a, char *b, char *c, Progress *progress) {
    char *const operands[3] = {a, b, c};
    if (is_half(product) || needs_copies(product)) {
        ingot_hold_blas_threads();
        bool computed = multiply_copies(product, operands);
        ingot_release_blas_threads();
        return computed;
    }
    int64_t block[3];
    choose_block(product, block);
    ingot_hold_blas_threads();
    bool whole = block[0] == product->m && block[1] == product->n && block[2] == product->k;
    bool done = whole ? multiply_stack(product, operands, progress) : multiply_in_blocks(product, operands, block, progress);
    ingot_release_blas_threads();
    return done;
}

/* ---- Python ---- */

static int read_numbers(PyObject *tuple, int64_t *numbers, int count) {
    if (!PyTuple_Check(tuple) || PyTuple_GET_SIZE(tuple) != count) {
        PyErr_SetString(PyExc_ValueError, "a product has a length and three strides for each axis of its stack.");
        return -1;
    }
    for (int i = 0; i < count; i++)
        numbers[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
    return PyErr_Occurred() ? -1 : 0;
}

int ingot_read_product(PyObject *tuple, Product *product) {
    const char *transpose;
    long long m, n, k, lda, ldb, ldc, steps[2] = {1, 1};
    PyObject *lengths, *strides[3];
    if (!PyArg_ParseTuple(tuple, "CsLLLLLLO!(OOO)|(LL)", &product->element, &transpose, &m, &n, &k, &lda, &ldb, &ldc,
                          &PyTuple_Type, &lengths, &strides[0], &strides[1], &strides[2], &steps[0], &steps[1]))
        return -1;
    if (PyTuple_GET_SIZE(lengths) > MAXIMUM_STACK_AXES || blas.sgemm == NULL || strlen(transpose) != 2) {
        PyErr_SetString(PyExc_ValueError, "a product needs use_blas, two transposes and a stack of few axes.");
        return -1;
    }
    memcpy(product->transpose, transpose, 2);
    product->m = m, product->n = n, product->k = k;
    product->lda = lda, product->ldb = ldb, product->ldc = ldc;
    product->steps[0] = steps[0], product->steps[1] = steps[1];
    product->stack_axes = (int)PyTuple_GET_SIZE(lengths);
    int status = read_numbers(lengths, product->lengths, product->stack_axes);
    for (int operand = 0; operand < 3 && status == 0; operand++)
        status = read_numbers(strides[operand], product->strides[operand], product->stack_axes);
    return status;
}

/* multiply(product, a, b, c) */
static PyObject *multiply(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 4 || !is_ndarray(arguments[1]) || !is_ndarray(arguments[2]) || !is_ndarray(arguments[3])) {
        PyErr_SetString(PyExc_TypeError, "multiply takes a product and three ndarrays.");
        return NULL;
    }
    Product product;
    if (ingot_read_product(arguments[0], &product) < 0)
        return NULL;
    Progress progress = {0};
    PyThreadState *state = PyEval_SaveThread();
    bool done =
        ingot_multiply(&product, ndarray_data(arguments[1]), ndarray_data(arguments[2]), ndarray_data(arguments[3]), &progress);
    PyEval_RestoreThread(state);
    if (!done)
        return NULL;
    Py_RETURN_NONE;
}

/* ---- settings ---- */

/* use_blas(sgemm, dgemm, cgemm, sgemv, dgemv, cgemv, get_threads, set_threads): addresses */
static PyObject *use_blas(PyObject *Py_UNUSED(module), PyObject *arguments) {
    unsigned long long addresses[8];
    if (!PyArg_ParseTuple(arguments, "KKKKKKKK:use_blas", &addresses[0], &addresses[1], &addresses[2], &addresses[3],
                          &addresses[4], &addresses[5], &addresses[6], &addresses[7]))
        return NULL;
    blas.sgemm = (Gemm)(uintptr_t)addresses[0];
    blas.dgemm = (Gemm)(uintptr_t)addresses[1];
    blas.cgemm = (Gemm)(uintptr_t)addresses[2];
    blas.sgemv = (Gemv)(uintptr_t)addresses[3];
    blas.dgemv = (Gemv)(uintptr_t)addresses[4];
    blas.cgemv = (Gemv)(uintptr_t)addresses[5];
    blas.get_threads = (int (*)(void))(uintptr_t)addresses[6];
    blas.set_threads = (void (*)(int))(uintptr_t)addresses[7];
    Py_RETURN_NONE;
}

static PyObject *set_deterministic(PyObject *Py_UNUSED(module), PyObject *flag) {
    int on = PyObject_IsTrue(flag);
    if (on < 0)
        return NULL;
    deterministic = on;
    Py_RETURN_NONE;
}

static PyObject *is_deterministic(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return PyBool_FromLong(deterministic);
}

static PyObject *hold_blas_threads(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    ingot_hold_blas_threads();
    Py_RETURN_NONE;
}

static PyObject *release_blas_threads(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    ingot_release_blas_threads();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"multiply", (PyCFunction)(void (*)(void))multiply, METH_FASTCALL,
     "multiply(product, a, b, c): products of the matrices of a stack, on the pool's threads"},
    {"use_blas", use_blas, METH_VARARGS,
     "use_blas(sgemm, dgemm, cgemm, sgemv, dgemv, cgemv, get_threads, set_threads): addresses; 0 for none"},
    {"set_deterministic", set_deterministic, METH_O, "Whether products are cut into tiles whatever the number of threads."},
    {"is_deterministic", is_deterministic, METH_NOARGS, "Whether set_deterministic is on."},
    {"hold_blas_threads", hold_blas_threads, METH_NOARGS, "Keeps BLAS on the thread that calls it; may be nested."},
    {"release_blas_threads", release_blas_threads, METH_NOARGS, "Ends what hold_blas_threads began."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_product(PyObject *module) {
    pthread_atfork(NULL, NULL, after_fork_in_child);
    return PyModule_AddFunctions(module, functions);
}
