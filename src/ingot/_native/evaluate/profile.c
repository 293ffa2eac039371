/* Profiles: the clock, and telling Python what ran and how long. Only reached while a profile runs. */
#include "native.h"
#include <time.h>

int64_t ingot_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Calls a hook, which another thread may remove meanwhile, and keeps the exception that may be on its way. */
static void report(PyObject *hook, PyObject *arguments) {
    PyObject *result = arguments == NULL ? NULL : PyObject_CallObject(hook, arguments);
    if (result == NULL)
        PyErr_WriteUnraisable(hook);
    Py_XDECREF(result);
    Py_XDECREF(arguments);
    Py_DECREF(hook);
}

void ingot_report_node(Node *node, int64_t begin) {
    int64_t end = ingot_now();
    if (hooks.ran_node == NULL)
        return;
    PyObject *hook = Py_NewRef(hooks.ran_node);
    report(hook, Py_BuildValue("OLL", (PyObject *)node, (long long)begin, (long long)end));
}

void ingot_report_program(PyObject *about, PyObject *times) {
    if (hooks.ran_program == NULL) {
        Py_DECREF(times);
        return;
    }
    PyObject *hook = Py_NewRef(hooks.ran_program);
    report(hook, Py_BuildValue("ON", about, times));
}
