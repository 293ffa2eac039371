/* The engine lock, and safe access to what threads share without it. */
#include "threads/engine_lock.h"

#ifdef Py_GIL_DISABLED

static PyObject *engine; /* whose critical section the lock is */
static _Thread_local EngineHold *innermost;

/* Whether the section is the innermost of this thread, and not suspended: the interpreter suspends outer sections while a
 * thread waits for an inner one, so that a hold further out says nothing. */
static bool is_active(const EngineHold *hold) {
    return PyThreadState_GetUnchecked()->critical_section == (uintptr_t)&hold->section;
}

/* The hold that has the section. */
static EngineHold *owner(EngineHold *hold) {
    while (hold != NULL && hold->is_nested)
        hold = hold->outer;
    return hold;
}

void ingot_engine_enter(EngineHold *hold) {
    EngineHold *held = owner(innermost);
    hold->outer = innermost;
    hold->is_nested = held != NULL && is_active(held);
    if (!hold->is_nested)
        PyCriticalSection_Begin(&hold->section, engine);
    innermost = hold;
}

void ingot_engine_leave(EngineHold *hold) {
    innermost = hold->outer;
    if (!hold->is_nested)
        PyCriticalSection_End(&hold->section);
}

EngineHold *ingot_engine_pause(void) {
    EngineHold *paused = innermost, *held = owner(paused);
    if (held == NULL || !is_active(held))
        return NULL;
    innermost = NULL;
    PyCriticalSection_End(&held->section);
    return paused;
}

void ingot_engine_resume(EngineHold *paused) {
    if (paused == NULL)
        return;
    PyCriticalSection_Begin(&owner(paused)->section, engine);
    innermost = paused;
}

int ingot_add_engine_lock(PyObject *module) {
    engine = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    return engine == NULL ? -1 : PyUnstable_Module_SetGIL(module, Py_MOD_GIL_NOT_USED);
}

#else

int ingot_add_engine_lock(PyObject *Py_UNUSED(module)) {
    return 0;
}

#endif

static PyObject **field_at(PyObject *self, void *offset) {
    return (PyObject **)((char *)self + (uintptr_t)offset);
}

PyObject *ingot_get_field(PyObject *self, void *offset) {
    PyObject *value;
    ENGINE_BEGIN
    value = *field_at(self, offset);
    value = Py_NewRef(value == NULL ? Py_None : value);
    ENGINE_END
    return value;
}

int ingot_set_field(PyObject *self, PyObject *value, void *offset) {
    PyObject *before;
    ENGINE_BEGIN
    before = *field_at(self, offset);
    *field_at(self, offset) = Py_XNewRef(value);
    ENGINE_END
    Py_XDECREF(before);
    return 0;
}

PyObject *ingot_steady_sequence(PyObject *sequence) {
#ifdef Py_GIL_DISABLED
    if (PyList_Check(sequence))
        return PyList_GetSlice(sequence, 0, PY_SSIZE_T_MAX);
#endif
    return Py_NewRef(sequence);
}

PyObject *ingot_steady_dict(PyObject *dict) {
#ifdef Py_GIL_DISABLED
    return PyDict_Copy(dict);
#else
    return Py_NewRef(dict);
#endif
}

PyObject *ingot_dict_get(PyObject *dict, PyObject *key) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *value;
    (void)PyDict_GetItemRef(dict, key, &value); /* sets it to NULL on errors, too */
    return value;
#else
    return Py_XNewRef(PyDict_GetItemWithError(dict, key));
#endif
}

PyObject *ingot_referent(PyObject *weak) {
#if PY_VERSION_HEX >= 0x030D0000
    PyObject *object;
    (void)PyWeakref_GetRef(weak, &object);
    return object;
#else
    PyObject *object = PyWeakref_GET_OBJECT(weak);
    return object == Py_None ? NULL : Py_NewRef(object);
#endif
}
