/* Python bindings for Fourier transforms. */
#include "numpy_api.h"

#include "fourier/fourier.h"

static const char PLAN[] = "ingot fourier plan";

static void free_plan(PyObject *capsule) {
    ingot_free_fourier_plan(PyCapsule_GetPointer(capsule, PLAN));
}

/* fourier_plan(length, is_real, lanes=16) -> a plan for that length of the complex transform, with vectors of at most so
 * many lanes, or None if a prime factor is too large */
static PyObject *fourier_plan(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_ssize_t length, lanes = 16;
    int is_real;
    bool supported;
    if (!PyArg_ParseTuple(arguments, "np|n:fourier_plan", &length, &is_real, &lanes))
        return NULL;
    if (length < 1 || length > INT32_MAX || lanes < 4)
        Py_RETURN_NONE;
    ingot_fourier_plan *plan = ingot_plan_fourier(length, is_real, ingot_fourier_lanes(lanes), &supported);
    if (!supported)
        Py_RETURN_NONE;
    if (plan == NULL)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(plan, PLAN, free_plan);
    if (capsule == NULL)
        ingot_free_fourier_plan(plan);
    return capsule;
}

static bool are_rows(PyArrayObject *x, int type, npy_intp length) {
    return PyArray_NDIM(x) == 3 && PyArray_ISCARRAY_RO(x) && PyArray_TYPE(x) == type && PyArray_DIM(x, 1) == length;
}

/* transform_rows(plan, backward, scale, numbers, results): rows along the middle axis of three */
static PyObject *transform_rows(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *capsule;
    int backward;
    float scale;
    PyArrayObject *x, *out;
    if (!PyArg_ParseTuple(arguments, "OpfO!O!:transform_rows", &capsule, &backward, &scale, &PyArray_Type, &x, &PyArray_Type,
                          &out))
        return NULL;
    const ingot_fourier_plan *plan = PyCapsule_GetPointer(capsule, PLAN);
    if (plan == NULL)
        return NULL;
    int64_t n = plan->length;
    bool from_real = plan->is_real && !backward, to_real = plan->is_real && backward;
    bool fits = are_rows(x, from_real ? NPY_FLOAT : NPY_CFLOAT, from_real ? 2 * n : n + to_real) &&
                are_rows(out, to_real ? NPY_FLOAT : NPY_CFLOAT, to_real ? 2 * n : n + from_real) && PyArray_ISWRITEABLE(out) &&
                PyArray_DIM(x, 0) == PyArray_DIM(out, 0) && PyArray_DIM(x, 2) == PyArray_DIM(out, 2);
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "[transform_rows] the memory does not have the sizes of the shape.");
    ingot_fourier transform = {
        .plan = plan,
        .kind = plan->is_real ? (backward ? FOURIER_REAL_BACKWARD : FOURIER_REAL_FORWARD)
                              : (backward ? FOURIER_BACKWARD : FOURIER_FORWARD),
        .before = PyArray_DIM(x, 0),
        .behind = PyArray_DIM(x, 2),
        .from = PyArray_DATA(x),
        .to = PyArray_DATA(out),
        .scale = scale,
    };
    bool done = true;
    if (PyArray_SIZE(x) > 0) {
        Py_BEGIN_ALLOW_THREADS
        done = ingot_transform(&transform);
        Py_END_ALLOW_THREADS
    }
    if (!done)
        return PyErr_Occurred() ? NULL : PyErr_NoMemory();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"fourier_plan", fourier_plan, METH_VARARGS, "fourier_plan(length, is_real, lanes=16) -> a plan, or None if there is none"},
    {"transform_rows", transform_rows, METH_VARARGS, "transform_rows(plan, backward, scale, numbers, results): fills the last"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_fourier(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
