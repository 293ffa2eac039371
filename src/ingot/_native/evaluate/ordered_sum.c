/* Sums and products of floats and doubles in the order of graph/numerics/reduction_order.py, which also defines the
 * constants below, for ops that are evaluated by themselves. Kernels follow the same order, and give the same bits.
 *
 * The order fixes which elements are combined, not in which order they are read, so vectors run along whichever axis is
 * contiguous in memory: the inner reduced axis (rows), a kept one (columns), or the outer reduced one (spread), where the
 * sums of all blocks are computed first and then added in order. Rows of a few elements are lanes. */
#include "numpy_api.h"

#include <string.h>

#include "search/vectors.h"
#include "tuning.h"

#define ORDER_LANES 32
#define ORDER_BLOCK 512
#define ORDER_PART 16
#define COLUMNS ORDERED_SUM_COLUMNS
#define MAX_SHORT_ROW 8

typedef struct {
    Py_ssize_t length, stride; /* in elements */
    Py_ssize_t result_stride;  /* in results, of an axis that is kept */
} Axis;

typedef struct {
    Axis before, outer, inner, behind; /* outer and inner are reduced */
    bool multiplies;
    enum { ROWS, SHORT_ROWS, COLUMNS_BEHIND, SPREAD } strategy;
    void *block_sums; /* for SPREAD: one per block, in the order of addition */
} Shape;

static Py_ssize_t blocks_of(const Shape *shape) {
    return (shape->inner.length + ORDER_BLOCK - 1) / ORDER_BLOCK;
}

static inline Py_ssize_t block_length(const Shape *shape, Py_ssize_t first) {
    Py_ssize_t left = shape->inner.length - first;
    return left < ORDER_BLOCK ? left : ORDER_BLOCK;
}

/* For each element type and total type: blocks, the three strategies, and the dispatch. */
#define DEFINE_REDUCTION(NAME, TYPE, TOTAL)                                                                         \
    /* A block that does not reach all lanes: the others have no effect. */                                         \
    INLINE TYPE NAME##_short_block(const TYPE *x, Py_ssize_t count, int used, bool multiplies) {                    \
        TYPE lanes[ORDER_LANES / 2] = {0};                                                                          \
        for (int lane = 0; lane < used; lane++)                                                                     \
            lanes[lane] = lane >= count ? multiplies : multiplies ? x[lane] : x[lane] + 0;                          \
        for (int half = used / 2; half > 0; half /= 2)                                                              \
            for (int lane = 0; lane < half; lane++)                                                                 \
                lanes[lane] = multiplies ? lanes[lane] * lanes[lane + half] : lanes[lane] + lanes[lane + half];     \
        return lanes[0];                                                                                            \
    }                                                                                                               \
    INLINE TYPE NAME##_block(const TYPE *x, Py_ssize_t count, bool multiplies) {                                    \
        if (count <= 4)                                                                                             \
            return NAME##_short_block(x, count, 4, multiplies);                                                     \
        if (count <= 8)                                                                                             \
            return NAME##_short_block(x, count, 8, multiplies);                                                     \
        if (count <= 16)                                                                                            \
            return NAME##_short_block(x, count, 16, multiplies);                                                    \
        TYPE lanes[ORDER_LANES];                                                                                    \
        for (int lane = 0; lane < ORDER_LANES; lane++)                                                              \
            lanes[lane] = multiplies;                                                                               \
        for (; count >= ORDER_LANES; count -= ORDER_LANES, x += ORDER_LANES)                                        \
            for (int lane = 0; lane < ORDER_LANES; lane++)                                                          \
                lanes[lane] = multiplies ? lanes[lane] * x[lane] : lanes[lane] + x[lane];                           \
        for (int lane = 0; lane < count; lane++)                                                                    \
            lanes[lane] = multiplies ? lanes[lane] * x[lane] : lanes[lane] + x[lane];                               \
        for (int half = ORDER_LANES / 2; half > 0; half /= 2)                                                       \
            for (int lane = 0; lane < half; lane++)                                                                 \
                lanes[lane] = multiplies ? lanes[lane] * lanes[lane + half] : lanes[lane] + lanes[lane + half];     \
        return lanes[0];                                                                                            \
    }                                                                                                               \
                                                                                                                    \
    /* A block of each of several columns that lie side by side; the sums are in the first lane. */                 \
    INLINE void NAME##_blocks(const TYPE *x, Py_ssize_t stride, Py_ssize_t count, Py_ssize_t width,                 \
                              TYPE lanes[ORDER_LANES][COLUMNS], bool multiplies) {                                  \
        for (int lane = 0; lane < ORDER_LANES; lane++)                                                              \
            for (int column = 0; column < COLUMNS; column++)                                                        \
                lanes[lane][column] = multiplies;                                                                   \
        for (Py_ssize_t at = 0; at < count; at++) {                                                                 \
            TYPE *lane = lanes[at % ORDER_LANES];                                                                   \
            const TYPE *from = x + at * stride;                                                                     \
            for (Py_ssize_t column = 0; column < width; column++)                                                   \
                lane[column] = multiplies ? lane[column] * from[column] : lane[column] + from[column];              \
        }                                                                                                           \
        for (int half = ORDER_LANES / 2; half > 0; half /= 2)                                                       \
            for (int lane = 0; lane < half; lane++)                                                                 \
                for (int column = 0; column < COLUMNS; column++)                                                    \
                    lanes[lane][column] = multiplies ? lanes[lane][column] * lanes[lane + half][column]             \
                                                     : lanes[lane][column] + lanes[lane + half][column];            \
    }                                                                                                               \
                                                                                                                    \
    INLINE void NAME##_row(const TYPE *x, const Shape *shape, TOTAL *out, bool multiplies) {                        \
        TOTAL total = multiplies, part = multiplies;                                                                \
        Py_ssize_t in_part = 0;                                                                                     \
        for (Py_ssize_t row = 0; row < shape->outer.length; row++, x += shape->outer.stride)                        \
            for (Py_ssize_t first = 0; first < shape->inner.length; first += ORDER_BLOCK) {                         \
                TOTAL block = NAME##_block(x + first, block_length(shape, first), multiplies);                      \
                part = multiplies ? part * block : part + block;                                                    \
                if (++in_part == ORDER_PART) {                                                                      \
                    total = multiplies ? total * part : total + part;                                               \
                    part = multiplies, in_part = 0;                                                                 \
                }                                                                                                   \
            }                                                                                                       \
        *out = multiplies ? total * part : total + part;                                                            \
    }                                                                                                               \
                                                                                                                    \
    INLINE void NAME##_columns(const TYPE *x, const Shape *shape, Py_ssize_t width, TOTAL *out, bool multiplies) {  \
        TYPE lanes[ORDER_LANES][COLUMNS];                                                                           \
        TOTAL part[COLUMNS], total[COLUMNS];                                                                        \
        Py_ssize_t in_part = 0;                                                                                     \
        for (int column = 0; column < COLUMNS; column++)                                                            \
            part[column] = total[column] = multiplies;                                                              \
        for (Py_ssize_t row = 0; row < shape->outer.length; row++, x += shape->outer.stride)                        \
            for (Py_ssize_t first = 0; first < shape->inner.length; first += ORDER_BLOCK) {                         \
                const TYPE *from = x + first * shape->inner.stride;                                                 \
                NAME##_blocks(from, shape->inner.stride, block_length(shape, first), width, lanes, multiplies);     \
                for (int column = 0; column < COLUMNS; column++)                                                    \
                    part[column] = multiplies ? part[column] * lanes[0][column] : part[column] + lanes[0][column];  \
                if (++in_part == ORDER_PART) {                                                                      \
                    for (int column = 0; column < COLUMNS; column++) {                                              \
                        total[column] = multiplies ? total[column] * part[column] : total[column] + part[column];   \
                        part[column] = multiplies;                                                                  \
                    }                                                                                               \
                    in_part = 0;                                                                                    \
                }                                                                                                   \
            }                                                                                                       \
        for (Py_ssize_t column = 0; column < width; column++)                                                       \
            out[column * shape->behind.result_stride] =                                                             \
                multiplies ? total[column] * part[column] : total[column] + part[column];                           \
    }                                                                                                               \
                                                                                                                    \
    INLINE void NAME##_spread(const TYPE *x, const Shape *shape, TOTAL *out, bool multiplies) {                     \
        TYPE lanes[ORDER_LANES][COLUMNS];                                                                           \
        TOTAL *sums = shape->block_sums, total = multiplies, part = multiplies;                                     \
        Py_ssize_t blocks = blocks_of(shape), rows = shape->outer.length;                                           \
        for (Py_ssize_t row = 0; row < rows; row += COLUMNS) {                                                      \
            Py_ssize_t width = rows - row < COLUMNS ? rows - row : COLUMNS;                                         \
            for (Py_ssize_t block = 0; block < blocks; block++) {                                                   \
                Py_ssize_t first = block * ORDER_BLOCK;                                                             \
                const TYPE *from = x + row + first * shape->inner.stride;                                           \
                NAME##_blocks(from, shape->inner.stride, block_length(shape, first), width, lanes, multiplies);     \
                for (Py_ssize_t column = 0; column < width; column++)                                               \
                    sums[(row + column) * blocks + block] = lanes[0][column];                                       \
            }                                                                                                       \
        }                                                                                                           \
        for (Py_ssize_t block = 0; block < rows * blocks; block++) {                                                \
            part = multiplies ? part * sums[block] : part + sums[block];                                            \
            if ((block + 1) % ORDER_PART == 0) {                                                                    \
                total = multiplies ? total * part : total + part;                                                   \
                part = multiplies;                                                                                  \
            }                                                                                                       \
        }                                                                                                           \
        *out = multiplies ? total * part : total + part;                                                            \
    }                                                                                                               \
                                                                                                                    \
    /* Rows of `count` elements, which is a constant, one after the other: vectors run across rows. */              \
    INLINE void NAME##_short(const TYPE *x, const Shape *shape, TOTAL *out, int count, int used, bool multiplies) { \
        for (Py_ssize_t row = 0; row < shape->before.length; row++)                                                 \
            out[row] = NAME##_short_block(x + row * count, count, used, multiplies);                                \
    }                                                                                                               \
                                                                                                                    \
    INLINE void NAME##_short_rows(const TYPE *x, const Shape *shape, TOTAL *out, bool multiplies) {                 \
        switch (shape->inner.length) {                                                                              \
        case 2:                                                                                                     \
            return NAME##_short(x, shape, out, 2, 2, multiplies);                                                   \
        case 3:                                                                                                     \
            return NAME##_short(x, shape, out, 3, 4, multiplies);                                                   \
        case 4:                                                                                                     \
            return NAME##_short(x, shape, out, 4, 4, multiplies);                                                   \
        case 5:                                                                                                     \
            return NAME##_short(x, shape, out, 5, 8, multiplies);                                                   \
        case 6:                                                                                                     \
            return NAME##_short(x, shape, out, 6, 8, multiplies);                                                   \
        case 7:                                                                                                     \
            return NAME##_short(x, shape, out, 7, 8, multiplies);                                                   \
        default:                                                                                                    \
            return NAME##_short(x, shape, out, 8, 8, multiplies);                                                   \
        }                                                                                                           \
    }                                                                                                               \
    INLINE void NAME##_all(const TYPE *x, const Shape *shape, TOTAL *out, bool multiplies) {                        \
        const Axis *before = &shape->before, *behind = &shape->behind;                                              \
        if (shape->strategy == SHORT_ROWS) {                                                                        \
            NAME##_short_rows(x, shape, out, multiplies);                                                           \
            return;                                                                                                 \
        }                                                                                                           \
        Py_ssize_t step = shape->strategy == COLUMNS_BEHIND ? COLUMNS : 1;                                          \
        for (Py_ssize_t row = 0; row < before->length; row++)                                                       \
            for (Py_ssize_t column = 0; column < behind->length; column += step) {                                  \
                const TYPE *from = x + row * before->stride + column * behind->stride;                              \
                TOTAL *to = out + row * before->result_stride + column * behind->result_stride;                     \
                Py_ssize_t left = behind->length - column;                                                          \
                if (shape->strategy == ROWS)                                                                        \
                    NAME##_row(from, shape, to, multiplies);                                                        \
                else if (shape->strategy == SPREAD)                                                                 \
                    NAME##_spread(from, shape, to, multiplies);                                                     \
                else                                                                                                \
                    NAME##_columns(from, shape, left < COLUMNS ? left : COLUMNS, to, multiplies);                   \
            }                                                                                                       \
    }                                                                                                               \
                                                                                                                    \
    FOR_EACH_MACHINE                                                                                                \
    static void NAME(const TYPE *x, const Shape *shape, TOTAL *out) {                                               \
        if (shape->multiplies)                                                                                      \
            NAME##_all(x, shape, out, true);                                                                        \
        else                                                                                                        \
            NAME##_all(x, shape, out, false);                                                                       \
    }

DEFINE_REDUCTION(reduce_single_in_double, float, double)
DEFINE_REDUCTION(reduce_single, float, float)
DEFINE_REDUCTION(reduce_double, double, double)

static bool is_dense(const Axis *axis) {
    return axis->length > 1 && axis->stride == 1;
}

/* Chooses the strategy; false if no axis is contiguous. */
static bool choose_strategy(Shape *shape) {
    if (shape->inner.stride == 1 || shape->inner.length == 1) {
        bool has_columns = shape->inner.length == 1 && (is_dense(&shape->behind) || is_dense(&shape->before));
        bool is_short = shape->inner.length > 1 && shape->inner.length <= MAX_SHORT_ROW && shape->outer.length == 1 &&
                        shape->behind.length == 1 && shape->before.stride == shape->inner.length;
        shape->strategy = is_short ? SHORT_ROWS : ROWS;
        if (!has_columns)
            return true;
    }
    if (!is_dense(&shape->behind) && is_dense(&shape->before)) {
        Axis before = shape->before; /* both are kept: they are interchangeable */
        shape->before = shape->behind;
        shape->behind = before;
    }
    shape->strategy = is_dense(&shape->behind) ? COLUMNS_BEHIND : SPREAD;
    return shape->strategy == COLUMNS_BEHIND || is_dense(&shape->outer);
}

static Axis axis_of(PyArrayObject *x, int axis) {
    Py_ssize_t length = PyArray_DIM(x, axis);
    return (Axis){length, length == 1 ? 0 : PyArray_STRIDE(x, axis) / PyArray_ITEMSIZE(x), 0};
}

static bool is_readable(PyArrayObject *x) {
    Py_ssize_t size = PyArray_ITEMSIZE(x);
    bool is_readable = PyArray_NDIM(x) == 4 && PyArray_ISBEHAVED_RO(x) && (size == 4 || size == 8) && PyArray_SIZE(x) > 0;
    for (int axis = 0; is_readable && axis < 4; axis++)
        is_readable = PyArray_STRIDE(x, axis) % size == 0;
    return is_readable;
}

static int run(Shape *shape, PyArrayObject *x, PyArrayObject *out) {
    Py_ssize_t total = PyArray_ITEMSIZE(out);
    shape->block_sums = NULL;
    if (shape->strategy == SPREAD) {
        shape->block_sums = PyMem_Malloc((size_t)(shape->outer.length * blocks_of(shape) * total));
        if (shape->block_sums == NULL) {
            PyErr_NoMemory();
            return -1;
        }
    }
    Py_BEGIN_ALLOW_THREADS
    if (PyArray_ITEMSIZE(x) == 8)
        reduce_double(PyArray_DATA(x), shape, PyArray_DATA(out));
    else if (total == 8)
        reduce_single_in_double(PyArray_DATA(x), shape, PyArray_DATA(out));
    else
        reduce_single(PyArray_DATA(x), shape, PyArray_DATA(out));
    Py_END_ALLOW_THREADS
    PyMem_Free(shape->block_sums);
    return 0;
}

/* reduce_in_order(elements, totals, product) -> whether it was done. Reduces the middle axes of an array (before, outer,
 * inner, behind) of float or double; totals is (before, behind), which for floats may be double. Elements without any
 * contiguous axis have to be copied first. */
static PyObject *reduce_in_order(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyArrayObject *x, *out;
    Shape shape;
    int product;
    if (!PyArg_ParseTuple(arguments, "O!O!p:reduce_in_order", &PyArray_Type, &x, &PyArray_Type, &out, &product))
        return NULL;
    bool fits = is_readable(x) && PyArray_NDIM(out) == 2 && PyArray_ISCARRAY(out) && PyArray_DIM(out, 0) == PyArray_DIM(x, 0) &&
                PyArray_DIM(out, 1) == PyArray_DIM(x, 3) && PyArray_ITEMSIZE(out) >= PyArray_ITEMSIZE(x) &&
                PyArray_ITEMSIZE(out) <= 8;
    if (!fits) {
        PyErr_SetString(PyExc_ValueError, "[reduce_in_order] the memory does not have the sizes of the shape.");
        return NULL;
    }
    shape.multiplies = product;
    shape.before = axis_of(x, 0);
    shape.outer = axis_of(x, 1);
    shape.inner = axis_of(x, 2);
    shape.behind = axis_of(x, 3);
    shape.before.result_stride = shape.behind.length;
    shape.behind.result_stride = 1;
    if (!choose_strategy(&shape))
        Py_RETURN_FALSE;
    if (run(&shape, x, out) < 0)
        return NULL;
    Py_RETURN_TRUE;
}

static PyMethodDef functions[] = {
    {"reduce_in_order", reduce_in_order, METH_VARARGS, "Sums or products of floats in the one order that kernels use, too."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_ordered_sum(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
