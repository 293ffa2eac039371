/* Sums and products of floats and doubles in the order of graph/numerics/reduction_order.py, which the numbers below are from:
 * for ops that are evaluated by themselves. Kernels follow the same order, and so must give the same bits. */
#include "native.h"

#include <string.h>

#include "search/vectors.h"
#include "tuning.h"

#define ORDER_LANES 32
#define ORDER_BLOCK 512
#define ORDER_PART 16
#define COLUMNS ORDERED_SUM_COLUMNS

typedef struct {
    Py_ssize_t before, outer, length, behind; /* the elements; outer and length are reduced */
    bool multiplies;
} Shape;

/* For each type of elements and of totals: one row, several columns, everything. */
#define DEFINE_REDUCTION(NAME, TYPE, TOTAL)                                                                        \
    INLINE TYPE NAME##_halved(TYPE *lanes, bool multiplies) {                                                      \
        for (int half = ORDER_LANES / 2; half > 0; half /= 2)                                                      \
            for (int lane = 0; lane < half; lane++)                                                                \
                lanes[lane] = multiplies ? lanes[lane] * lanes[lane + half] : lanes[lane] + lanes[lane + half];    \
        return lanes[0];                                                                                           \
    }                                                                                                              \
                                                                                                                   \
    INLINE TYPE NAME##_block(const TYPE *x, Py_ssize_t count, bool multiplies) {                                   \
        TYPE lanes[ORDER_LANES];                                                                                   \
        for (int lane = 0; lane < ORDER_LANES; lane++)                                                             \
            lanes[lane] = multiplies;                                                                              \
        for (; count >= ORDER_LANES; count -= ORDER_LANES, x += ORDER_LANES)                                       \
            for (int lane = 0; lane < ORDER_LANES; lane++)                                                         \
                lanes[lane] = multiplies ? lanes[lane] * x[lane] : lanes[lane] + x[lane];                          \
        for (int lane = 0; lane < count; lane++)                                                                   \
            lanes[lane] = multiplies ? lanes[lane] * x[lane] : lanes[lane] + x[lane];                              \
        return NAME##_halved(lanes, multiplies);                                                                   \
    }                                                                                                              \
                                                                                                                   \
    INLINE void NAME##_row(const TYPE *x, const Shape *shape, TOTAL *out, bool multiplies) {                       \
        TOTAL total = multiplies, part = multiplies;                                                               \
        Py_ssize_t in_part = 0;                                                                                    \
        for (Py_ssize_t row = 0; row < shape->outer; row++, x += shape->length)                                    \
            for (Py_ssize_t first = 0; first < shape->length; first += ORDER_BLOCK) {                              \
                Py_ssize_t left = shape->length - first;                                                           \
                TOTAL block = NAME##_block(x + first, left < ORDER_BLOCK ? left : ORDER_BLOCK, multiplies);        \
                part = multiplies ? part * block : part + block;                                                   \
                if (++in_part == ORDER_PART) {                                                                     \
                    total = multiplies ? total * part : total + part;                                              \
                    part = multiplies, in_part = 0;                                                                \
                }                                                                                                  \
            }                                                                                                      \
        *out = multiplies ? total * part : total + part;                                                           \
    }                                                                                                              \
                                                                                                                   \
    INLINE void NAME##_columns(const TYPE *x, const Shape *shape, Py_ssize_t width, TOTAL *out, bool multiplies) { \
        TYPE lanes[ORDER_LANES][COLUMNS];                                                                          \
        TOTAL part[COLUMNS];                                                                                       \
        Py_ssize_t in_part = 0;                                                                                    \
        for (int column = 0; column < COLUMNS; column++)                                                           \
            part[column] = multiplies;                                                                             \
        for (Py_ssize_t column = 0; column < width; column++)                                                      \
            out[column] = multiplies;                                                                              \
        for (Py_ssize_t row = 0; row < shape->outer; row++, x += shape->length * shape->behind)                    \
            for (Py_ssize_t first = 0; first < shape->length; first += ORDER_BLOCK) {                              \
                Py_ssize_t past = shape->length - first < ORDER_BLOCK ? shape->length : first + ORDER_BLOCK;       \
                for (int lane = 0; lane < ORDER_LANES; lane++)                                                     \
                    for (int column = 0; column < COLUMNS; column++)                                               \
                        lanes[lane][column] = multiplies;                                                          \
                for (Py_ssize_t at = first; at < past; at++) {                                                     \
                    TYPE *lane = lanes[(at - first) % ORDER_LANES];                                                \
                    const TYPE *from = x + at * shape->behind;                                                     \
                    for (Py_ssize_t column = 0; column < width; column++)                                          \
                        lane[column] = multiplies ? lane[column] * from[column] : lane[column] + from[column];     \
                }                                                                                                  \
                for (int half = ORDER_LANES / 2; half > 0; half /= 2)                                              \
                    for (int lane = 0; lane < half; lane++)                                                        \
                        for (int column = 0; column < COLUMNS; column++)                                           \
                            lanes[lane][column] = multiplies ? lanes[lane][column] * lanes[lane + half][column]    \
                                                             : lanes[lane][column] + lanes[lane + half][column];   \
                for (int column = 0; column < COLUMNS; column++)                                                   \
                    part[column] = multiplies ? part[column] * lanes[0][column] : part[column] + lanes[0][column]; \
                if (++in_part == ORDER_PART) {                                                                     \
                    for (Py_ssize_t column = 0; column < width; column++)                                          \
                        out[column] = multiplies ? out[column] * part[column] : out[column] + part[column];        \
                    for (int column = 0; column < COLUMNS; column++)                                               \
                        part[column] = multiplies;                                                                 \
                    in_part = 0;                                                                                   \
                }                                                                                                  \
            }                                                                                                      \
        for (Py_ssize_t column = 0; column < width; column++)                                                      \
            out[column] = multiplies ? out[column] * part[column] : out[column] + part[column];                    \
    }                                                                                                              \
                                                                                                                   \
    INLINE void NAME##_all(const TYPE *x, const Shape *shape, TOTAL *out, bool multiplies) {                       \
        for (Py_ssize_t row = 0; row < shape->before; row++) {                                                     \
            const TYPE *from = x + row * shape->outer * shape->length * shape->behind;                             \
            TOTAL *to = out + row * shape->behind;                                                                 \
            if (shape->behind == 1) {                                                                              \
                NAME##_row(from, shape, to, multiplies);                                                           \
                continue;                                                                                          \
            }                                                                                                      \
            for (Py_ssize_t column = 0; column < shape->behind; column += COLUMNS) {                               \
                Py_ssize_t left = shape->behind - column;                                                          \
                NAME##_columns(from + column, shape, left < COLUMNS ? left : COLUMNS, to + column, multiplies);    \
            }                                                                                                      \
        }                                                                                                          \
    }                                                                                                              \
                                                                                                                   \
    FOR_EACH_MACHINE                                                                                               \
    static void NAME(const TYPE *x, const Shape *shape, TOTAL *out) {                                              \
        if (shape->multiplies)                                                                                     \
            NAME##_all(x, shape, out, true);                                                                       \
        else                                                                                                       \
            NAME##_all(x, shape, out, false);                                                                      \
    }

DEFINE_REDUCTION(reduce_single_in_double, float, double)
DEFINE_REDUCTION(reduce_single, float, float)
DEFINE_REDUCTION(reduce_double, double, double)

/* reduce_in_order(elements, totals, (before, outer, length, behind), product): contiguous memory of float or double; of
 * floats, totals may be doubles */
static PyObject *reduce_in_order(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer x, out;
    Shape shape;
    int product;
    if (!PyArg_ParseTuple(arguments, "y*w*(nnnn)p:reduce_in_order", &x, &out, &shape.before, &shape.outer, &shape.length,
                          &shape.behind, &product))
        return NULL;
    shape.multiplies = product;
    Py_ssize_t results = shape.before * shape.behind, elements = results * shape.outer * shape.length;
    bool has_sizes = shape.before > 0 && shape.outer > 0 && shape.length > 0 && shape.behind > 0;
    Py_ssize_t size = has_sizes ? x.len / elements : 0, total = has_sizes ? out.len / results : 0;
    bool fits = has_sizes && x.len == elements * size && out.len == results * total && (size == 4 || size == 8) &&
                total >= size && total <= 8;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        if (size == 8)
            reduce_double(x.buf, &shape, out.buf);
        else if (total == 8)
            reduce_single_in_double(x.buf, &shape, out.buf);
        else
            reduce_single(x.buf, &shape, out.buf);
        Py_END_ALLOW_THREADS
    } else {
        PyErr_SetString(PyExc_ValueError, "[reduce_in_order] the memory does not have the sizes of the shape.");
    }
    PyBuffer_Release(&x);
    PyBuffer_Release(&out);
    if (!fits)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"reduce_in_order", reduce_in_order, METH_VARARGS, "Sums or products of floats in the one order that kernels use, too."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_ordered_sum(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
