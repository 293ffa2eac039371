/* The head of NumPy's array struct, which its ABI has kept since version 1: read instead of asked for, because a
 * compiled call on a scalar is over in a microsecond. `ndarray_address` lets Python check it once. */
#ifndef INGOT_NDARRAY_H
#define INGOT_NDARRAY_H

#include "native.h"

typedef struct {
    PyObject_HEAD
    char *data;
    int nd;
    Py_ssize_t *dimensions;
    Py_ssize_t *strides;
    PyObject *base;
    PyObject *descr;
    int flags;
} NumpyArray;

enum { NUMPY_C_CONTIGUOUS = 0x1, NUMPY_OWNS_DATA = 0x4, NUMPY_WRITEABLE = 0x400 };

static inline bool is_ndarray(PyObject *object) {
    return hooks.ndarray_type != NULL && PyObject_TypeCheck(object, (PyTypeObject *)hooks.ndarray_type);
}

#endif
