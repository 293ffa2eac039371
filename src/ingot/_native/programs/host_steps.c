/* The Python functions that a program calls: host steps, failed checks, and what native code could not compute. */
#include "programs/program.h"

#include "numpy_api.h"

/* What the Python function of a host step or check returns for its operands. */
static PyObject *call_host(Program *program, Instruction *instruction, PyObject *owners) {
    PyObject *host = NULL;
    ENGINE_BEGIN
    if (instruction->host != NULL || ingot_template_host(program, instruction) == 0)
        host = Py_NewRef(instruction->host);
    ENGINE_END
    PyObject *operands =
        host == NULL ? NULL : ingot_make_views(program, instruction->first_view, instruction->view_count, owners);
    PyObject *result = operands == NULL ? NULL : PyObject_CallObject(host, operands);
    Py_XDECREF(operands);
    Py_XDECREF(host);
    return result;
}

/* What it returns as a sequence of arrays: a list or tuple. */
static PyObject *host_results(Program *program, Instruction *instruction, PyObject *owners) {
    PyObject *results = call_host(program, instruction, owners);
    PyObject *fast = results == NULL ? NULL : PySequence_Fast(results, "a host step returns a sequence.");
    Py_XDECREF(results);
    for (Py_ssize_t i = 0; fast != NULL && i < PySequence_Fast_GET_SIZE(fast); i++) {
        PyObject *array = PySequence_Fast_GET_ITEM(fast, i);
        if (!is_ndarray(array) || !is_contiguous(array)) {
            PyErr_SetString(PyExc_RuntimeError, "a host step must return contiguous ndarrays.");
            Py_CLEAR(fast);
        }
    }
    return fast;
}

int ingot_run_host(Program *program, Instruction *instruction, PyObject *owners, char **slots) {
    PyObject *fast = host_results(program, instruction, owners);
    if (fast == NULL)
        return -1;
    int status = 0;
    if (PySequence_Fast_GET_SIZE(fast) != instruction->count) {
        PyErr_SetString(PyExc_RuntimeError, "a host step returned another number of results than it has slots.");
        status = -1;
    }
    for (int i = 0; status == 0 && i < instruction->count; i++) {
        PyObject *array = PySequence_Fast_GET_ITEM(fast, i);
        int slot = instruction->arguments[i].slot;
        slots[slot] = ndarray_data(array);
        status = PyList_SetItem(owners, slot, Py_NewRef(array));
    }
    Py_DECREF(fast);
    return status;
}

int ingot_run_instead(Program *program, Instruction *instruction, PyObject *owners, char **slots) {
    PyObject *fast = host_results(program, instruction, owners);
    if (fast == NULL)
        return -1;
    /* the results are the last arguments, before the scratch memory of a loop or branch */
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast), first = instruction->count - count - (instruction->kind == NESTED);
    int status = first < 0 ? -1 : 0;
    if (status < 0)
        PyErr_SetString(PyExc_RuntimeError, "a host step returned more results than there are arguments.");
    for (Py_ssize_t i = 0; status == 0 && i < count; i++) {
        PyObject *array = PySequence_Fast_GET_ITEM(fast, i);
        const Argument *result = &instruction->arguments[first + i];
        memcpy(slots[result->slot] + result->offset, ndarray_data(array), (size_t)PyArray_NBYTES(as_ndarray(array)));
    }
    Py_DECREF(fast);
    return status;
}

int ingot_raise_check(Program *program, Instruction *instruction, PyObject *owners) {
    PyObject *result = call_host(program, instruction, owners);
    if (result != NULL) {
        Py_DECREF(result);
        PyErr_SetString(PyExc_RuntimeError, "a check failed without an error; this is a bug in ingot.");
    }
    return -1;
}
