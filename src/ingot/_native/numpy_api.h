/* NumPy's C API, as all files of the extension include it: one function table, filled by module.c. */
#ifndef INGOT_NUMPY_API_H
#define INGOT_NUMPY_API_H

#include "native.h"

#define NPY_NO_DEPRECATED_API NPY_2_0_API_VERSION
#define NPY_TARGET_VERSION NPY_2_0_API_VERSION
#define PY_ARRAY_UNIQUE_SYMBOL ingot_numpy_api
#ifndef INGOT_IMPORTS_NUMPY
#define NO_IMPORT_ARRAY
#endif
#include <numpy/arrayobject.h>

static inline bool is_ndarray(PyObject *object) {
    return PyArray_Check(object);
}
/* For objects known to be ndarrays. */
static inline PyArrayObject *as_ndarray(PyObject *object) {
    return (PyArrayObject *)object;
}
static inline bool is_contiguous(PyObject *ndarray) {
    return PyArray_IS_C_CONTIGUOUS(as_ndarray(ndarray));
}
static inline char *ndarray_data(PyObject *ndarray) {
    return PyArray_BYTES(as_ndarray(ndarray));
}

#endif
