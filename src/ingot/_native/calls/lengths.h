/* The lengths of all axes of some arrays, one after the other. */
#ifndef INGOT_LENGTHS_H
#define INGOT_LENGTHS_H
#include "native.h"

#define FAST_LENGTHS 32

/* Writes the lengths of a shape; returns the end of what it wrote, or NULL with an error. */
static inline int64_t *write_lengths(PyObject *shape, int64_t *to) {
    for (Py_ssize_t axis = 0; axis < PyTuple_GET_SIZE(shape); axis++) {
        *to = PyLong_AsLongLong(PyTuple_GET_ITEM(shape, axis));
        if (*to++ == -1 && PyErr_Occurred())
            return NULL;
    }
    return to;
}

typedef struct {
    int64_t fast[FAST_LENGTHS], *items;
    Py_ssize_t count;
} Lengths;

static inline int reserve(Lengths *lengths) {
    lengths->items = lengths->fast;
    if (lengths->count > FAST_LENGTHS)
        lengths->items = PyMem_Malloc((size_t)lengths->count * sizeof *lengths->items);
    if (lengths->items != NULL)
        return 0;
    PyErr_NoMemory();
    return -1;
}

static inline void end_lengths(Lengths *lengths) {
    if (lengths->items != lengths->fast)
        PyMem_Free(lengths->items);
}

static inline int end_if_failed(Lengths *lengths, const int64_t *end) {
    if (end == NULL)
        end_lengths(lengths);
    return end == NULL ? -1 : 0;
}

static inline PyObject *shape_of(PyObject *array) { /* borrowed */
    return ((Array *)array)->node->shape;
}

static inline int lengths_of_arrays(PyObject *arrays, Lengths *lengths) {
    lengths->count = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arrays); i++)
        lengths->count += PyTuple_GET_SIZE(shape_of(PyList_GET_ITEM(arrays, i)));
    if (reserve(lengths) < 0)
        return -1;
    int64_t *to = lengths->items;
    for (Py_ssize_t i = 0; to != NULL && i < PyList_GET_SIZE(arrays); i++)
        to = write_lengths(shape_of(PyList_GET_ITEM(arrays, i)), to);
    return end_if_failed(lengths, to);
}

static inline int lengths_of_shapes(PyObject *shapes, Lengths *lengths) {
    lengths->count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shapes); i++) {
        if (!PyTuple_Check(PyTuple_GET_ITEM(shapes, i))) {
            PyErr_SetString(PyExc_TypeError, "shapes are tuples.");
            return -1;
        }
        lengths->count += PyTuple_GET_SIZE(PyTuple_GET_ITEM(shapes, i));
    }
    if (reserve(lengths) < 0)
        return -1;
    int64_t *to = lengths->items;
    for (Py_ssize_t i = 0; to != NULL && i < PyTuple_GET_SIZE(shapes); i++)
        to = write_lengths(PyTuple_GET_ITEM(shapes, i), to);
    return end_if_failed(lengths, to);
}

#endif
