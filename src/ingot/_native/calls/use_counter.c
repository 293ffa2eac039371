/* UseCounter: the number of uses of something, and the time of the last one on a logical clock that ticks with every use.
 * Cheap enough for every compiled call, so that caches can evict by LRU although hits never reach Python. */
#include "native.h"
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    long long count, last_used;
} UseCounter;

PyTypeObject *UseCounter_Type;
static long long clock_of_uses; /* guarded by the engine lock, as the counters are */

void ingot_count_use(PyObject *counter) {
    UseCounter *self = (UseCounter *)counter;
    self->count++;
    self->last_used = ++clock_of_uses;
}

long long ingot_last_use(PyObject *counter) {
    return ((UseCounter *)counter)->last_used;
}

static PyObject *used(PyObject *self, PyObject *Py_UNUSED(nothing)) {
    ingot_count_use(self);
    Py_RETURN_NONE;
}

LOCKS_METHOD(used)

static PyMethodDef methods[] = {
    {"used", LOCKED(used), METH_NOARGS, "Counts a use."},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"count", T_LONGLONG, offsetof(UseCounter, count), 0, "The number of uses."},
    {"last_used", T_LONGLONG, offsetof(UseCounter, last_used), READONLY, "The time of the last use, on the logical clock."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_doc, "The number of uses of something, and the time of the last one."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.UseCounter",
    .basicsize = sizeof(UseCounter),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

static PyObject *tick(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    return PyLong_FromLongLong(++clock_of_uses);
}

LOCKS_METHOD(tick)

static PyMethodDef functions[] = {
    {"tick", LOCKED(tick), METH_NOARGS, "tick() -> advances the logical clock and returns the time"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_use_counter(PyObject *module) {
    UseCounter_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (UseCounter_Type == NULL || PyModule_AddObjectRef(module, "UseCounter", (PyObject *)UseCounter_Type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
