/* The engine lock: what the GIL is to this extension, where the interpreter has none.
 *
 * Nodes, arrays, caches of programs and tables of calls are shared by all threads, and the code that reads and changes them was
 * written for one thread at a time. On a free-threaded interpreter, every function that touches them runs in a critical section
 * of one object. Like the GIL, it is given up wherever a thread waits or computes without Python (PyEval_SaveThread), and
 * explicitly around calls of Python code that may take long, between ENGINE_PAUSE and ENGINE_RESUME: what holds the lock is
 * short, and kernels of several threads run side by side. With a GIL, all of this is nothing. */
#ifndef INGOT_ENGINE_LOCK_H
#define INGOT_ENGINE_LOCK_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>

#ifdef Py_GIL_DISABLED

typedef struct EngineHold {
    PyCriticalSection section;
    struct EngineHold *outer;
    bool is_nested; /* `outer` holds the lock already */
} EngineHold;

void ingot_engine_enter(EngineHold *hold);
void ingot_engine_leave(EngineHold *hold);
/* What is handed to `ingot_engine_resume`; NULL if there is nothing to resume. */
EngineHold *ingot_engine_pause(void);
void ingot_engine_resume(EngineHold *paused);

#define ENGINE_BEGIN            \
    {                           \
        EngineHold engine_hold; \
        ingot_engine_enter(&engine_hold);
#define ENGINE_END                    \
    ingot_engine_leave(&engine_hold); \
    }
#define ENGINE_PAUSE \
    {                \
        EngineHold *engine_paused = ingot_engine_pause();
#define ENGINE_RESUME                   \
    ingot_engine_resume(engine_paused); \
    }

/* These define a function that calls another one with the lock held, which LOCKED then names. */
#define LOCKED(name) name##_locked
#define LOCKS_METHOD(name)                                               \
    static PyObject *name##_locked(PyObject *self, PyObject *argument) { \
        PyObject *result;                                                \
        ENGINE_BEGIN result = (name)((void *)self, argument);            \
        ENGINE_END return result;                                        \
    }
#define LOCKS_FAST_METHOD(name)                                                                    \
    static PyObject *name##_locked(PyObject *self, PyObject *const *arguments, Py_ssize_t count) { \
        PyObject *result;                                                                          \
        ENGINE_BEGIN result = (name)((void *)self, arguments, count);                              \
        ENGINE_END return result;                                                                  \
    }
#define LOCKS_GETTER(name)                                          \
    static PyObject *name##_locked(PyObject *self, void *closure) { \
        PyObject *result;                                           \
        ENGINE_BEGIN result = (name)((void *)self, closure);        \
        ENGINE_END return result;                                   \
    }
#define LOCKS_SETTER(name)                                                     \
    static int name##_locked(PyObject *self, PyObject *value, void *closure) { \
        int result;                                                            \
        ENGINE_BEGIN result = (name)((void *)self, value, closure);            \
        ENGINE_END return result;                                              \
    }

#else

#define ENGINE_BEGIN {
#define ENGINE_END }
#define ENGINE_PAUSE {
#define ENGINE_RESUME }
#define LOCKED(name) name
#define LOCKS_METHOD(name)
#define LOCKS_FAST_METHOD(name)
#define LOCKS_GETTER(name)
#define LOCKS_SETTER(name)

#endif

/* Attributes of C structures that are Python objects and may be replaced: read and written with the lock held, which the
 * interpreter's own members are not. The closure of a property is the offset of the field; an empty one is None. */
PyObject *ingot_get_field(PyObject *self, void *offset);
int ingot_set_field(PyObject *self, PyObject *value, void *offset);
#define SHARED_FIELD(name, type, field, doc) {name, ingot_get_field, ingot_set_field, doc, (void *)offsetof(type, field)}
#define SHARED_READONLY_FIELD(name, type, field, doc) {name, ingot_get_field, NULL, doc, (void *)offsetof(type, field)}

/* A container that no other thread changes while it is read, with the same items: itself with a GIL, else a copy. A new
 * reference. */
PyObject *ingot_steady_sequence(PyObject *list_or_tuple);
PyObject *ingot_steady_dict(PyObject *dict);
/* The value of a key, a new reference; NULL, possibly with an error, if there is none. */
PyObject *ingot_dict_get(PyObject *dict, PyObject *key);
/* The object that a weak reference refers to, a new reference; NULL if it is gone. */
PyObject *ingot_referent(PyObject *weak);

int ingot_add_engine_lock(PyObject *module);

#endif
