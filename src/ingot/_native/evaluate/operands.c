/* The operands of an op while a node is evaluated, and which of them the result may overwrite. */
#include "evaluate/operands.h"

#include "numpy_api.h"

static bool owns_its_memory(PyArrayObject *array) {
    return PyArray_BASE(array) == NULL && PyArray_CHKFLAGS(array, NPY_ARRAY_OWNDATA | NPY_ARRAY_WRITEABLE);
}

/* Whether nothing else can reach the elements: the array owns them or is, like the result of a reshape, a contiguous
 * view of all elements of an array that only the view refers to. */
static bool is_sole_owner(Node *input) {
    if (Py_REFCNT(input) != 1 || Py_REFCNT(input->data) != 1 || !PyArray_CheckExact(input->data))
        return false;
    PyArrayObject *array = as_ndarray(input->data);
    PyObject *base = PyArray_BASE(array);
    if (base == NULL)
        return owns_its_memory(array);
    return Py_REFCNT(base) == 1 && PyArray_CheckExact(base) && owns_its_memory(as_ndarray(base)) &&
           PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_WRITEABLE) &&
           PyArray_NBYTES(array) == PyArray_NBYTES(as_ndarray(base));
}

void end_call(Call *call) {
    for (Py_ssize_t i = 0; i < call->count; i++)
        Py_XDECREF(call->values[i + 1]);
    if (call->values != call->fast_values) {
        PyMem_Free(call->values);
        PyMem_Free(call->donated);
    }
    Py_DECREF(call->op);
    Py_DECREF(call->inputs);
}

int begin_call(Call *call, Node *node, bool may_donate) {
    may_donate = may_donate && Py_REFCNT(node->inputs) == 1;
    /* Another thread may evaluate and detach the same node meanwhile, so hold references. */
    call->op = Py_NewRef(node->op);
    call->inputs = Py_NewRef(node->inputs);
    call->count = PyTuple_GET_SIZE(call->inputs);
    call->any_donated = false;
    call->values = call->fast_values;
    call->donated = call->fast_donated;
    if (call->count > MAX_FAST_INPUTS) {
        call->values = PyMem_Calloc((size_t)(call->count + 1), sizeof *call->values);
        call->donated = PyMem_Calloc((size_t)call->count, sizeof *call->donated);
    }
    if (call->values == NULL || call->donated == NULL) {
        call->count = 0;
        end_call(call);
        PyErr_NoMemory();
        return -1;
    }
    call->values[0] = call->op;
    for (Py_ssize_t i = 0; i < call->count; i++) {
        Node *input = (Node *)PyTuple_GET_ITEM(call->inputs, i);
        if (input->data == NULL) {
            PyErr_Format(PyExc_RuntimeError, "an input of %R was not evaluated; this is a bug in ingot.", call->op);
            call->count = i;
            end_call(call);
            return -1;
        }
        call->donated[i] = may_donate && is_sole_owner(input);
        call->values[i + 1] = Py_NewRef(input->data);
    }
    return 0;
}

/* Whether what `begin_call` found of donated inputs still holds after other threads may have run: the node and the call have
 * the only references to the inputs, and each input and the call to its value. */
bool are_still_sole(const Node *node, const Call *call) {
    if (node->inputs != call->inputs || Py_REFCNT(call->inputs) != 2)
        return false;
    for (Py_ssize_t i = 0; i < call->count; i++) {
        PyObject *input = PyTuple_GET_ITEM(call->inputs, i);
        if (call->donated[i] && (Py_REFCNT(input) != 1 || Py_REFCNT(call->values[i + 1]) != 2))
            return false;
    }
    return true;
}
