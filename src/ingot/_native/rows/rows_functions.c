/* Python bindings for the operations on rows. ops/ passes NumPy arrays of three axes; rows run along the middle one. */
#include "numpy_api.h"

#include "order/keys.h"
#include "products/halves.h"
#include "rows/random.h"
#include "rows/scan.h"
#include "rows/scatter.h"
#include "order/select.h"
#include "order/sort.h"
#include "search/vectors.h"
#include "threads/pool.h"
#include "tuning.h"

static ingot_rows rows_of(PyArrayObject *x) {
    ingot_rows rows = {.data = PyArray_BYTES(x)};
    for (int axis = 0; axis < 3; axis++)
        rows.strides[axis] = PyArray_STRIDE(x, axis);
    return rows;
}

static bool are_rows(PyArrayObject *x, int itemsize) {
    return PyArray_NDIM(x) == 3 && PyArray_ITEMSIZE(x) == itemsize;
}

static PyObject *wrong(const char *name) {
    return PyErr_Format(PyExc_ValueError, "[%s] the memory does not have the sizes of the shape.", name);
}

/* select_rows(dtype, elements, kth, begin, positions, results): partitions each row around the element of rank `kth`
 * and writes the part that starts at index `begin` and is as long as a row of the results: uint32 positions or
 * elements. */
static PyObject *select_rows(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Dtype *dtype;
    PyArrayObject *x, *out;
    Py_ssize_t kth, begin;
    int positions;
    if (!PyArg_ParseTuple(arguments, "O!O!nnpO!:select_rows", Dtype_Type, &dtype, &PyArray_Type, &x, &kth, &begin, &positions,
                          &PyArray_Type, &out))
        return NULL;
    bool fits = ingot_has_keys(dtype->number) && are_rows(x, dtype->itemsize) &&
                are_rows(out, positions ? (int)sizeof(uint32_t) : dtype->itemsize) &&
                PyArray_DIM(x, 0) == PyArray_DIM(out, 0) && PyArray_DIM(x, 2) == PyArray_DIM(out, 2) &&
                PyArray_DIM(x, 1) <= UINT32_MAX && kth >= 0 && kth < PyArray_DIM(x, 1) && begin >= 0 &&
                begin <= PyArray_DIM(x, 1) - PyArray_DIM(out, 1);
    if (!fits)
        return wrong("select_rows");
    ingot_selection selection = {
        .dtype = dtype->number,
        .before = PyArray_DIM(x, 0),
        .length = PyArray_DIM(x, 1),
        .behind = PyArray_DIM(x, 2),
        .elements = rows_of(x),
        .results = rows_of(out),
        .kth = kth,
        .begin = begin,
        .end = begin + PyArray_DIM(out, 1),
        .positions = positions,
    };
    bool done = true;
    if (PyArray_SIZE(out) > 0) {
        Py_BEGIN_ALLOW_THREADS
        done = ingot_select(&selection);
        Py_END_ALLOW_THREADS
    }
    if (!done)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* sort_rows(dtype, elements, positions, results): sorts each row, as elements or uint32 positions. */
static PyObject *sort_rows(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Dtype *dtype;
    PyArrayObject *x, *out;
    int positions;
    if (!PyArg_ParseTuple(arguments, "O!O!pO!:sort_rows", Dtype_Type, &dtype, &PyArray_Type, &x, &positions, &PyArray_Type,
                          &out))
        return NULL;
    bool fits = ingot_has_keys(dtype->number) && are_rows(x, dtype->itemsize) &&
                are_rows(out, positions ? (int)sizeof(uint32_t) : dtype->itemsize) && PyArray_DIM(x, 1) <= UINT32_MAX;
    for (int axis = 0; fits && axis < 3; axis++)
        fits = PyArray_DIM(x, axis) == PyArray_DIM(out, axis);
    if (!fits)
        return wrong("sort_rows");
    ingot_sorting sorting = {
        .dtype = dtype->number,
        .before = PyArray_DIM(x, 0),
        .length = PyArray_DIM(x, 1),
        .behind = PyArray_DIM(x, 2),
        .elements = rows_of(x),
        .results = rows_of(out),
        .positions = positions,
    };
    bool done = true;
    if (PyArray_SIZE(out) > 0) {
        Py_BEGIN_ALLOW_THREADS
        done = ingot_sort_rows(&sorting);
        Py_END_ALLOW_THREADS
    }
    if (!done)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* scan_rows(dtype, kind, elements, results) -> whether that dtype is supported */
static PyObject *scan_rows(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Dtype *dtype;
    int kind;
    PyArrayObject *x, *out;
    if (!PyArg_ParseTuple(arguments, "O!iO!O!:scan_rows", Dtype_Type, &dtype, &kind, &PyArray_Type, &x, &PyArray_Type, &out))
        return NULL;
    bool fits = are_rows(x, dtype->itemsize) && are_rows(out, dtype->itemsize) && kind >= SCAN_SUM && kind <= SCAN_LOGADDEXP;
    for (int axis = 0; fits && axis < 3; axis++)
        fits = PyArray_DIM(x, axis) == PyArray_DIM(out, axis);
    if (!fits)
        return wrong("scan_rows");
    if (!ingot_can_scan((ingot_scan_kind)kind, dtype->number))
        Py_RETURN_FALSE;
    ingot_scan scan = {
        .kind = (ingot_scan_kind)kind,
        .dtype = dtype->number,
        .before = PyArray_DIM(x, 0),
        .length = PyArray_DIM(x, 1),
        .behind = PyArray_DIM(x, 2),
        .elements = rows_of(x),
        .results = rows_of(out),
    };
    bool done = true;
    if (PyArray_SIZE(x) > 0) {
        Py_BEGIN_ALLOW_THREADS
        done = ingot_scan_rows(&scan);
        Py_END_ALLOW_THREADS
    }
    if (!done)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_RETURN_TRUE;
}

typedef struct {
    char *narrow, *wide;
    int element;
    bool widens;
} Conversion;

static void convert(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const Conversion *c = context;
    uint16_t *narrow = (uint16_t *)(void *)c->narrow + begin;
    float *wide = (float *)(void *)c->wide + begin;
    if (c->widens)
        ingot_widen(c->element, narrow, 1, end - begin, 0, 1, wide);
    else
        ingot_narrow(c->element, wide, 1, end - begin, 0, narrow);
}

/* convert_halves(dtype, elements, results): float16 or bfloat16 to float32, or back. */
static PyObject *convert_halves(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Dtype *dtype;
    PyArrayObject *x, *out;
    if (!PyArg_ParseTuple(arguments, "O!O!O!:convert_halves", Dtype_Type, &dtype, &PyArray_Type, &x, &PyArray_Type, &out))
        return NULL;
    bool widens = PyArray_ITEMSIZE(x) == 2;
    bool fits = PyArray_ITEMSIZE(x) + PyArray_ITEMSIZE(out) == 6 && (widens || PyArray_ITEMSIZE(out) == 2) &&
                PyArray_SIZE(x) == PyArray_SIZE(out) && PyArray_IS_C_CONTIGUOUS(x) && PyArray_IS_C_CONTIGUOUS(out) &&
                (dtype->number == FLOAT16 || dtype->number == BFLOAT16);
    if (!fits)
        return wrong("convert_halves");
    Conversion conversion = {
        .narrow = PyArray_BYTES(widens ? x : out),
        .wide = PyArray_BYTES(widens ? out : x),
        .element = dtype->number == FLOAT16 ? 'h' : 'b',
        .widens = widens,
    };
    int64_t count = PyArray_SIZE(x);
    Py_BEGIN_ALLOW_THREADS
    ingot_parallel_for(convert, &conversion, count, CONVERSION_GRAIN);
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static bool is_matrix(PyArrayObject *x, int itemsize) {
    return PyArray_NDIM(x) == 2 && PyArray_ITEMSIZE(x) == itemsize;
}

/* One maximum of unsigned numbers tells whether all are within the axis: negative ones are large. Without branches,
 * the loops become vectors. */
#define WRAP(TYPE, from_end)                                    \
    do {                                                        \
        const TYPE *from = index;                               \
        for (int64_t i = 0; i < count; i++) {                   \
            int64_t row = (int64_t)from[i];                     \
            row += (row >> 63) & (from_end);                    \
            most = (uint64_t)row > most ? (uint64_t)row : most; \
            to[i] = row;                                        \
        }                                                       \
        return count == 0 || most < (uint64_t)length;           \
    } while (0)

/* Writes indices of `size` bytes, negative if they are unsigned. False if some are outside of the axis. */
FOR_EACH_MACHINE
static bool wrap(const void *index, int64_t size, int64_t count, int64_t length, int64_t *to) {
    uint64_t most = 0;
    switch (size) {
    case 1:
        WRAP(int8_t, length);
    case 2:
        WRAP(int16_t, length);
    case 4:
        WRAP(int32_t, length);
    case 8:
        WRAP(int64_t, length);
    case -1:
        WRAP(uint8_t, 0);
    case -2:
        WRAP(uint16_t, 0);
    case -4:
        WRAP(uint32_t, 0);
    default:
        WRAP(uint64_t, 0);
    }
}

/* The same for an axis behind others: adds its indices to the flat ones over these, a block at a time. */
static bool wrap_next(const void *index, int64_t size, int64_t count, int64_t length, int64_t *to) {
    int64_t block[512], itemsize = size < 0 ? -size : size;
    for (int64_t i = 0; i < count; i += 512) {
        int64_t here = count - i < 512 ? count - i : 512;
        if (!wrap((const char *)index + i * itemsize, size, here, length, block))
            return false;
        for (int64_t k = 0; k < here; k++)
            to[i + k] = to[i + k] * length + block[k];
    }
    return true;
}

/* flat_rows(index, length, rows, follows) -> whether all indices are within the axis. Writes them to rows (int64),
 * negative ones wrapped. With `follows`, rows already holds the flat index over the axes before, to which this axis
 * is added. */
static PyObject *flat_rows(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyArrayObject *index, *rows;
    Py_ssize_t length;
    int follows;
    if (!PyArg_ParseTuple(arguments, "O!nO!p:flat_rows", &PyArray_Type, &index, &length, &PyArray_Type, &rows, &follows))
        return NULL;
    Py_ssize_t count = PyArray_SIZE(index);
    if (!PyArray_ISCARRAY_RO(index) || !PyArray_ISCARRAY(rows) || PyArray_TYPE(rows) != NPY_INT64 ||
        PyArray_SIZE(rows) != count)
        return wrong("flat_rows");
    int64_t size = PyArray_ITEMSIZE(index) * (PyArray_ISSIGNED(index) ? 1 : -1);
    bool (*wrapped)(const void *, int64_t, int64_t, int64_t, int64_t *) = follows ? wrap_next : wrap;
    return PyBool_FromLong(wrapped(PyArray_DATA(index), size, count, length, PyArray_DATA(rows)));
}

FOR_EACH_MACHINE
static bool are_within(const int64_t *rows, int64_t count, int64_t length) {
    uint64_t most = 0;
    for (int64_t i = 0; i < count; i++)
        most = (uint64_t)rows[i] > most ? (uint64_t)rows[i] : most;
    return count == 0 || most < (uint64_t)length;
}

/* scatter_rows(dtype, mode, table, rows, updates, base): combines each row of updates into a row of the table. The
 * table is first initialised with `base`, or left as it is if that is None. */
static PyObject *scatter_rows(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Dtype *dtype;
    int mode;
    PyArrayObject *out, *rows, *updates;
    PyObject *given;
    if (!PyArg_ParseTuple(arguments, "O!iO!O!O!O:scatter_rows", Dtype_Type, &dtype, &mode, &PyArray_Type, &out, &PyArray_Type,
                          &rows, &PyArray_Type, &updates, &given))
        return NULL;
    PyArrayObject *base = given == Py_None ? NULL : as_ndarray(given);
    int size = dtype->itemsize;
    bool fits = (base == NULL || (is_ndarray(given) && is_matrix(base, size) && PyArray_DIM(base, 0) == PyArray_DIM(out, 0) &&
                                  PyArray_DIM(base, 1) == PyArray_DIM(out, 1))) &&
                is_matrix(out, size) && PyArray_ISCARRAY(out) && is_matrix(updates, size) && PyArray_NDIM(rows) == 1 &&
                PyArray_TYPE(rows) == NPY_INT64 && PyArray_ISCARRAY_RO(rows) &&
                PyArray_DIM(updates, 0) == PyArray_DIM(rows, 0) && PyArray_DIM(updates, 1) == PyArray_DIM(out, 1) &&
                (PyArray_STRIDE(updates, 1) == size || PyArray_DIM(updates, 1) <= 1 || PyArray_DIM(updates, 0) == 0) &&
                mode >= SCATTER_ASSIGN && mode <= SCATTER_MINIMUM && dtype->number != FLOAT16 && dtype->number != BFLOAT16 &&
                dtype->number != COMPLEX64;
    if (!fits || !are_within(PyArray_DATA(rows), PyArray_DIM(rows, 0), PyArray_DIM(out, 0)))
        return wrong("scatter_rows");
    ingot_scatter scatter = {
        .mode = (ingot_scatter_mode)mode,
        .dtype = dtype->number,
        .itemsize = size,
        .row_count = PyArray_DIM(out, 0),
        .width = PyArray_DIM(out, 1),
        .update_count = PyArray_DIM(rows, 0),
        .out = PyArray_BYTES(out),
        .base = base == NULL ? NULL : PyArray_BYTES(base),
        .base_strides = {base == NULL ? 0 : PyArray_STRIDE(base, 0), base == NULL ? 0 : PyArray_STRIDE(base, 1)},
        .rows = PyArray_DATA(rows),
        .updates = PyArray_BYTES(updates),
        .update_stride = PyArray_STRIDE(updates, 0),
    };
    bool done = true;
    if (PyArray_SIZE(out) > 0) {
        Py_BEGIN_ALLOW_THREADS
        done = ingot_scatter_rows(&scatter);
        Py_END_ALLOW_THREADS
    }
    if (!done)
        return PyErr_NoMemory();
    Py_RETURN_NONE;
}

static bool are_floats(PyArrayObject *x) {
    return PyArray_TYPE(x) == NPY_FLOAT && PyArray_ISCARRAY_RO(x);
}

/* polynomial(x, coefficients, results): fills the results with the polynomial's values. */
static PyObject *polynomial(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyArrayObject *x, *coefficients, *out;
    if (!PyArg_ParseTuple(arguments, "O!O!O!:polynomial", &PyArray_Type, &x, &PyArray_Type, &coefficients, &PyArray_Type, &out))
        return NULL;
    bool fits = are_floats(x) && are_floats(coefficients) && are_floats(out) && PyArray_ISWRITEABLE(out) &&
                PyArray_SIZE(x) == PyArray_SIZE(out) && PyArray_SIZE(coefficients) > 0;
    if (!fits)
        return wrong("polynomial");
    ingot_polynomial(PyArray_DATA(x), PyArray_SIZE(x), PyArray_DATA(coefficients), PyArray_SIZE(coefficients),
                     PyArray_DATA(out));
    Py_RETURN_NONE;
}

/* random_words(keys, words, results): fills the results with as many random words for each key, and one more if their
 * number is odd. */
static PyObject *random_words(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyArrayObject *keys, *out;
    Py_ssize_t words;
    if (!PyArg_ParseTuple(arguments, "O!nO!:random_words", &PyArray_Type, &keys, &words, &PyArray_Type, &out))
        return NULL;
    bool fits = is_matrix(keys, sizeof(uint32_t)) && PyArray_ISCARRAY_RO(keys) && PyArray_DIM(keys, 1) == 2 && words >= 0 &&
                is_matrix(out, sizeof(uint32_t)) && PyArray_ISCARRAY(out) && PyArray_DIM(out, 0) == PyArray_DIM(keys, 0) &&
                PyArray_DIM(out, 1) == words + words % 2;
    if (!fits)
        return wrong("random_words");
    ingot_random_words job = {PyArray_DATA(keys), PyArray_DATA(out), PyArray_DIM(keys, 0), words};
    bool done = true;
    if (PyArray_SIZE(out) > 0) {
        Py_BEGIN_ALLOW_THREADS
        done = ingot_fill_random_words(&job);
        Py_END_ALLOW_THREADS
    }
    if (!done)
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"flat_rows", flat_rows, METH_VARARGS, "flat_rows(index, length, rows, follows) -> whether all are within the axis"},
    {"polynomial", polynomial, METH_VARARGS, "polynomial(x, coefficients, results): fills the last"},
    {"random_words", random_words, METH_VARARGS, "random_words(keys, words, results): fills the last"},
    {"convert_halves", convert_halves, METH_VARARGS,
     "convert_halves(dtype, elements, results): float16 or bfloat16 to float32, or back"},
    {"scan_rows", scan_rows, METH_VARARGS, "scan_rows(dtype, kind, elements, results) -> whether the results were computed"},
    {"scatter_rows", scatter_rows, METH_VARARGS, "scatter_rows(dtype, mode, table, rows, updates, base): changes the table"},
    {"select_rows", select_rows, METH_VARARGS, "select_rows(dtype, elements, kth, begin, positions, results): fills the last"},
    {"sort_rows", sort_rows, METH_VARARGS, "sort_rows(dtype, elements, positions, results): fills the last"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_rows(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
