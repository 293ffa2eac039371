/* Errors of evaluations: results that are not what was inferred, and exceptions that leave an evaluation. Python adds what
 * failed and for which line (runtime/failures.py), and removes ingot's frames from the traceback. */
#include "native.h"
#include "numpy_api.h"

/* Calls a callback with the current exception and up to two more arguments; the exception that it returns replaces the
 * current one. A failure of the callback itself is only printed. */
static void transform_error(PyObject *callback, PyObject *first, PyObject *second) {
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback != NULL)
        PyException_SetTraceback(error, traceback);
    Py_XDECREF(type);
    Py_XDECREF(traceback);
    PyObject *explained = PyObject_CallFunctionObjArgs(callback, error, first, second, NULL);
    if (explained == NULL)
        PyErr_WriteUnraisable(callback);
    else if (PyExceptionInstance_Check(explained))
        Py_SETREF(error, Py_NewRef(explained));
    Py_XDECREF(explained);
    traceback = PyException_GetTraceback(error);
    PyErr_Restore(Py_NewRef(Py_TYPE(error)), error, traceback);
}

void ingot_explain_node(Node *node) {
    if (callbacks.explain_node != NULL && PyErr_ExceptionMatches(PyExc_Exception))
        transform_error(callbacks.explain_node, (PyObject *)node, NULL);
}

void ingot_explain_instruction(PyObject *about, Py_ssize_t number) {
    if (callbacks.explain_instruction == NULL || !PyErr_ExceptionMatches(PyExc_Exception))
        return;
    PyObject *type, *error, *traceback;
    PyErr_Fetch(&type, &error, &traceback);
    PyObject *boxed = PyLong_FromSsize_t(number);
    if (boxed == NULL)
        PyErr_Clear(); /* the error itself matters more than its location */
    PyErr_Restore(type, error, traceback);
    if (boxed != NULL)
        transform_error(callbacks.explain_instruction, about, boxed);
    Py_XDECREF(boxed);
}

/* shorten_traceback(error) */
static PyObject *shorten_traceback(PyObject *Py_UNUSED(module), PyObject *error) {
    return callbacks.shorten == NULL ? Py_NewRef(Py_None) : PyObject_CallOneArg(callbacks.shorten, error);
}

static PyMethodDef functions[] = {
    {"shorten_traceback", shorten_traceback, METH_O,
     "shorten_traceback(error): removes the package's frames from its traceback"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_failure(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}

void ingot_shorten_traceback(void) {
    if (callbacks.shorten != NULL)
        transform_error(callbacks.shorten, NULL, NULL);
}

/* ---- results that are not what was inferred ---- */

/* Whether an ndarray has the shape, a tuple of ints; -1 on error. */
static int has_shape(PyArrayObject *array, PyObject *shape) {
    if (PyArray_NDIM(array) != PyTuple_GET_SIZE(shape))
        return 0;
    for (int axis = 0; axis < PyArray_NDIM(array); axis++) {
        Py_ssize_t length = PyNumber_AsSsize_t(PyTuple_GET_ITEM(shape, axis), PyExc_OverflowError);
        if (length == -1 && PyErr_Occurred())
            return -1;
        if (length != PyArray_DIM(array, axis))
            return 0;
    }
    return 1;
}

static void report_wrong_result(PyObject *op, PyArrayObject *array, PyObject *shape, Dtype *dtype) {
    PyObject *found = PyArray_IntTupleFromIntp(PyArray_NDIM(array), PyArray_DIMS(array));
    if (found == NULL)
        return;
    PyErr_Format(PyExc_RuntimeError,
                 "the evaluate rule of %R returned shape %R and dtype %R where %R and %R were inferred; "
                 "this is a bug in ingot.",
                 op, found, PyArray_DESCR(array), shape, dtype_numpy(dtype));
    Py_DECREF(found);
}

/* The result of a rule, as an ndarray of exactly the inferred shape and dtype: a new reference. */
static PyObject *checked_result(PyObject *op, PyObject *result, PyObject *shape, Dtype *dtype) {
    PyObject *ndarray = PyArray_EnsureArray(Py_NewRef(result)); /* NumPy scalars, mostly; steals the reference */
    if (ndarray == NULL)
        return NULL;
    PyArrayObject *array = as_ndarray(ndarray);
    PyArray_Descr *wanted = (PyArray_Descr *)dtype_numpy(dtype);
    int same = PyArray_DESCR(array) == wanted || PyArray_EquivTypes(PyArray_DESCR(array), wanted);
    if (same == 1)
        same = has_shape(array, shape);
    if (same == 0)
        report_wrong_result(op, array, shape, dtype);
    if (same != 1)
        Py_CLEAR(ndarray);
    return ndarray;
}

PyObject *checked_results(PyObject *op, PyObject *results, Node *node) {
    if (Py_IS_TYPE(node->dtype, Dtype_Type))
        return checked_result(op, results, node->shape, (Dtype *)node->dtype);
    PyObject *fast = PySequence_Fast(results, "the evaluate rule of an op with several outputs returns a sequence.");
    if (fast == NULL)
        return NULL;
    Py_ssize_t count = PyTuple_GET_SIZE(node->dtype);
    PyObject *checked = NULL;
    if (PySequence_Fast_GET_SIZE(fast) == count)
        checked = PyTuple_New(count);
    else
        PyErr_Format(PyExc_RuntimeError, "the evaluate rule of %R returned %zd outputs where %zd were inferred.", op,
                     PySequence_Fast_GET_SIZE(fast), count);
    for (Py_ssize_t i = 0; checked != NULL && i < count; i++) {
        PyObject *one = checked_result(op, PySequence_Fast_GET_ITEM(fast, i), PyTuple_GET_ITEM(node->shape, i),
                                       (Dtype *)PyTuple_GET_ITEM(node->dtype, i));
        if (one == NULL)
            Py_CLEAR(checked);
        else
            PyTuple_SET_ITEM(checked, i, one);
    }
    Py_DECREF(fast);
    return checked;
}
