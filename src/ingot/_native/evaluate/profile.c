/* Profiles: reports to Python what ran and how long it took, while a profile is active. */
#include "native.h"

/* Calls a callback, which another thread may remove meanwhile, and preserves the current exception. */
static void report(PyObject *callback, PyObject *arguments) {
    PyObject *result = arguments == NULL ? NULL : PyObject_CallObject(callback, arguments);
    if (result == NULL)
        PyErr_WriteUnraisable(callback);
    Py_XDECREF(result);
    Py_XDECREF(arguments);
    Py_DECREF(callback);
}

void ingot_report_node(Node *node, int64_t begin) {
    int64_t end = ingot_now();
    if (callbacks.ran_node == NULL)
        return;
    PyObject *callback = Py_NewRef(callbacks.ran_node);
    report(callback, Py_BuildValue("OLL", (PyObject *)node, (long long)begin, (long long)end));
}

void ingot_report_loop(PyObject *about, PyObject *times, Py_ssize_t steps) {
    if (callbacks.ran_loop == NULL) {
        Py_DECREF(times);
        return;
    }
    PyObject *callback = Py_NewRef(callbacks.ran_loop);
    report(callback, Py_BuildValue("ONn", about, times, steps));
}

void ingot_report_program(PyObject *about, PyObject *times) {
    if (callbacks.ran_program == NULL) {
        Py_DECREF(times);
        return;
    }
    PyObject *callback = Py_NewRef(callbacks.ran_program);
    report(callback, Py_BuildValue("ON", about, times));
}
