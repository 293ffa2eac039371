/* signature: the part of a compiled call that runs every time: the arrays in its arguments, and a key for the rest. */
#include "native.h"

typedef struct {
    PyObject *key;    /* list, made a tuple at the end */
    PyObject *arrays; /* list */
    bool shapes;      /* whether the key holds shapes, or only numbers of axes */
    bool values;      /* whether arrays are inputs, or only places in a structure */
} Signature;

static int add(Signature *self, PyObject *item) { /* takes over the reference */
    if (item == NULL)
        return -1;
    int status = PyList_Append(self->key, item);
    Py_DECREF(item);
    return status;
}

static int add_borrowed(Signature *self, PyObject *item) {
    return PyList_Append(self->key, item);
}

static int add_array(Signature *self, PyObject *array) {
    if (!self->values)
        return add_borrowed(self, (PyObject *)Array_Type);
    Node *node = ((Array *)array)->node;
    if (PyList_Append(self->arrays, array) < 0)
        return -1;
    int status = self->shapes ? add_borrowed(self, node->shape)
                              : add(self, PyLong_FromSsize_t(PyTuple_GET_SIZE(node->shape)));
    return status < 0 ? -1 : add_borrowed(self, node->dtype);
}

static int add_tree(Signature *self, PyObject *tree);

static int add_items(Signature *self, PyObject *sequence) {
    if (add_borrowed(self, (PyObject *)Py_TYPE(sequence)) < 0)
        return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(sequence);
    if (add(self, PyLong_FromSsize_t(count)) < 0)
        return -1;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(sequence); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(sequence, i));
        int status = add_tree(self, item);
        Py_DECREF(item);
        if (status < 0)
            return -1;
    }
    return 0;
}

static int add_dict(Signature *self, PyObject *dict) {
    if (add_borrowed(self, (PyObject *)Py_TYPE(dict)) < 0)
        return -1;
    PyObject *keys = PyDict_Keys(dict);
    PyObject *frozen = keys == NULL ? NULL : PyList_AsTuple(keys);
    Py_XDECREF(keys);
    if (frozen == NULL)
        return -1;
    int status = add_borrowed(self, frozen);
    for (Py_ssize_t i = 0; status == 0 && i < PyTuple_GET_SIZE(frozen); i++) {
        PyObject *item = PyDict_GetItemWithError(dict, PyTuple_GET_ITEM(frozen, i));
        if (item == NULL)
            status = -1;
        else {
            Py_INCREF(item);
            status = add_tree(self, item);
            Py_DECREF(item);
        }
    }
    Py_DECREF(frozen);
    return status;
}

/* Floats by their bits: NaN must equal itself, and 0.0 is not -0.0. */
static int add_float(Signature *self, PyObject *number) {
    double value = PyFloat_AS_DOUBLE(number);
    unsigned long long bits;
    memcpy(&bits, &value, sizeof bits);
    return add_borrowed(self, (PyObject *)&PyFloat_Type) < 0 ? -1 : add(self, PyLong_FromUnsignedLongLong(bits));
}

/* What is no tree, array or number: NumPy arrays become arrays, anything else is a constant by its equality. */
static int add_other(Signature *self, PyObject *object) {
    if (require_hook(hooks.ndarray_type, "ndarray_type") == NULL)
        return -1;
    if (PyObject_TypeCheck(object, (PyTypeObject *)hooks.ndarray_type)) {
        PyObject *made = PyObject_CallOneArg((PyObject *)Array_Type, object);
        int status = made == NULL ? -1 : add_array(self, made);
        Py_XDECREF(made);
        return status;
    }
    if (add_borrowed(self, (PyObject *)Py_TYPE(object)) < 0)
        return -1;
    if (PyObject_Hash(object) == -1) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            PyErr_Format(PyExc_ValueError,
                         "[compile] arguments are trees of arrays and constants, and %s is neither: pass an array, a "
                         "number, a string, None or another hashable object.",
                         Py_TYPE(object)->tp_name);
        return -1;
    }
    return add_borrowed(self, object);
}

static int add_tree(Signature *self, PyObject *tree) {
    if (is_array(tree))
        return add_array(self, tree);
    int status = -1;
    if (Py_EnterRecursiveCall(" while reading the arguments of a compiled function") != 0)
        return -1;
    if (PyList_Check(tree) || PyTuple_Check(tree))
        status = add_items(self, tree);
    else if (PyDict_Check(tree))
        status = add_dict(self, tree);
    else if (PyFloat_CheckExact(tree))
        status = add_float(self, tree);
    else
        status = add_other(self, tree);
    Py_LeaveRecursiveCall();
    return status;
}

/* signature(tree, shapes, values) -> (key, arrays) */
static PyObject *signature(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "signature takes a tree and two flags.");
        return NULL;
    }
    Signature self = {PyList_New(0), PyList_New(0), arguments[1] == Py_True, arguments[2] == Py_True};
    PyObject *result = NULL;
    if (self.key != NULL && self.arrays != NULL && add_tree(&self, arguments[0]) == 0) {
        PyObject *key = PyList_AsTuple(self.key);
        if (key != NULL)
            result = Py_BuildValue("NO", key, self.arrays);
    }
    Py_XDECREF(self.key);
    Py_XDECREF(self.arrays);
    return result;
}

static PyMethodDef functions[] = {
    {"signature", (PyCFunction)(void (*)(void))signature, METH_FASTCALL,
     "signature(tree, shapes, values) -> (key, arrays): a hashable key of everything but the arrays' values"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_signature(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
