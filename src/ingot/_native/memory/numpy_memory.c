/* NumPy arrays in the allocator's memory: during evaluation, NumPy allocates new arrays through its protocol for
 * custom memory handlers (NEP 49), so results are aligned, recycled and counted like all others. */
#include "native.h"

#include "memory/allocator.h"
#include "numpy_api.h"

#define HANDLER_CAPSULE "mem_handler" /* the name that NumPy requires */

static PyObject *our_handler; /* a capsule */

/* ---- called by NumPy ---- */

static void *numpy_malloc(void *Py_UNUSED(context), size_t size) {
    return ingot_allocate(size);
}

static void *numpy_calloc(void *Py_UNUSED(context), size_t count, size_t size) {
    size_t total;
    return __builtin_mul_overflow(count, size, &total) ? NULL : ingot_allocate_zeroed(total);
}

static void *numpy_realloc(void *Py_UNUSED(context), void *block, size_t size) {
    return ingot_reallocate(block, size);
}

static void numpy_free(void *Py_UNUSED(context), void *block, size_t size) {
    ingot_release(block, size);
}

static PyDataMem_Handler handler = {
    .name = "ingot",
    .version = 1,
    .allocator = {NULL, numpy_malloc, numpy_calloc, numpy_realloc, numpy_free},
};

/* ---- installing the handler ---- */

static PyObject *enter_numpy_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return PyDataMem_SetHandler(our_handler); /* returns the previous handler, an owned reference */
}

static PyObject *leave_numpy_memory(PyObject *Py_UNUSED(module), PyObject *token) {
    if (!PyCapsule_IsValid(token, HANDLER_CAPSULE)) {
        PyErr_Format(PyExc_TypeError, "[leave_numpy_memory] expected what enter_numpy_memory returned, got %R.", token);
        return NULL;
    }
    PyObject *ours = PyDataMem_SetHandler(token);
    if (ours == NULL)
        return NULL;
    Py_DECREF(ours);
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"enter_numpy_memory", enter_numpy_memory, METH_NOARGS,
     "enter_numpy_memory(): arrays NumPy makes from now on, in this context, use the allocator; returns a token"},
    {"leave_numpy_memory", leave_numpy_memory, METH_O,
     "leave_numpy_memory(token): NumPy uses again what it used before the token was made"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_numpy_memory(PyObject *module) {
    our_handler = PyCapsule_New(&handler, HANDLER_CAPSULE, NULL);
    if (our_handler == NULL)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
