/* A trace instantiated for given shapes. */
#ifndef INGOT_INSTANCE_H
#define INGOT_INSTANCE_H
#include "programs/program.h"

typedef struct {
    PyObject_HEAD
    PyObject *variant; /* a weak reference to the Variant that it belongs to */
    PyObject *trace;   /* that of the variant */
    PyObject *op;      /* Compiled */
    PyObject *result;  /* a Template, or None if the trace's recipe builds the result */
    PyObject *values;  /* those of the trace's dimensions; None if native code created the instance */
    PyObject *uses;    /* UseCounter */
    PyObject *entry;   /* of the native fast path; None if the slow path handles its calls */
} Instance;

extern PyTypeObject *Instance_Type;

/* A new reference; counts as a use. */
Instance *instance_create(PyObject *variant, PyObject *trace, PyObject *op, PyObject *result, PyObject *values);
/* The op of a program that a template of `source` created: a new reference. */
PyObject *instance_op(PyObject *source, Program *program, PyObject *dtypes);

#endif
