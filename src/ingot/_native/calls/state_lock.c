/* The lock under which implicit states are updated: the RLock of graph/state.py, whose methods are bound once, because
 * binding them takes as long as locking. */
#include "callbacks.h"
#include "native.h"

static PyObject *owner, *acquire, *release;

static int bind(void) {
    PyObject *lock = REQUIRED(state_lock);
    if (lock == NULL)
        return -1;
    if (lock == owner)
        return 0;
    PyObject *first = PyObject_GetAttr(lock, attribute_names.acquire);
    PyObject *second = first == NULL ? NULL : PyObject_GetAttr(lock, attribute_names.release);
    if (second == NULL) {
        Py_XDECREF(first);
        return -1;
    }
    Py_XSETREF(acquire, first);
    Py_XSETREF(release, second);
    Py_XSETREF(owner, Py_NewRef(lock));
    return 0;
}

int ingot_try_lock_states(void) {
    PyObject *taken = bind() < 0 ? NULL : PyObject_CallOneArg(acquire, Py_False);
    int is_taken = taken == NULL ? -1 : PyObject_IsTrue(taken);
    Py_XDECREF(taken);
    return is_taken;
}

int ingot_unlock_states(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *done = PyObject_CallNoArgs(release);
    Py_XDECREF(done);
    if (type != NULL)
        PyErr_Restore(type, value, traceback);
    return PyErr_Occurred() ? -1 : 0;
}
