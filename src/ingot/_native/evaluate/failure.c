/* Exceptions that leave an evaluation: Python adds what failed and for which line (runtime/failures.py), and removes
 * ingot's frames from the traceback. */
#include "native.h"

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
    PyObject *told = PyObject_CallFunctionObjArgs(callback, error, first, second, NULL);
    if (told == NULL)
        PyErr_WriteUnraisable(callback);
    else if (PyExceptionInstance_Check(told))
        Py_SETREF(error, Py_NewRef(told));
    Py_XDECREF(told);
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
