/* Buffer: a Python object that owns one block of the allocator. */
#ifndef INGOT_BUFFER_H
#define INGOT_BUFFER_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stddef.h>

/* Returns a new reference, or NULL with MemoryError. The contents are uninitialised. */
PyObject *ingot_buffer_new(size_t nbytes);

/* Requires a Buffer and does not check it. */
void *ingot_buffer_data(PyObject *buffer);

int ingot_is_buffer(PyObject *object);

/* Sets MemoryError for a failed request and returns NULL: "[malloc] cannot allocate 1.20 TB: ...". */
PyObject *ingot_no_memory(size_t size);

#endif
