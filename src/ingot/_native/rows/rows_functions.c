/* Work on rows as functions of the module: ops/ calls them with NumPy arrays of three axes, of which the middle one is along
 * the rows. */
#include "numpy_api.h"

#include "rows/keys.h"
#include "rows/select.h"

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

/* select_rows(dtype, elements, kth, begin, positions, results): the indices from `begin` on, as many as the results have, of
 * rows rearranged around the element of rank `kth`: positions as uint32, or elements. */
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

static PyMethodDef functions[] = {
    {"select_rows", select_rows, METH_VARARGS, "select_rows(dtype, elements, kth, begin, positions, results): fills the last"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_rows(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
