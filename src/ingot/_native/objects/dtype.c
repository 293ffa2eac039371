/* The fourteen dtypes as singletons, and the promotion table of MLX. */
#include "native.h"
#include <structmember.h>

PyTypeObject *Dtype_Type;
Dtype *dtype_table[DTYPE_COUNT];

static const struct {
    const char *name;
    int itemsize;
} descriptions[DTYPE_COUNT] = {
    {"bool_", 1}, {"uint8", 1}, {"uint16", 2},  {"uint32", 4},   {"uint64", 8},  {"int8", 1},    {"int16", 2},
    {"int32", 4}, {"int64", 8}, {"float16", 2}, {"bfloat16", 2}, {"float32", 4}, {"float64", 8}, {"complex64", 8},
};

/* Unlike in NumPy, an integer never makes a float wider, and float64 with complex64 gives complex64. */
static const uint8_t promotion[DTYPE_COUNT][DTYPE_COUNT] = {
    {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13},           {1, 1, 2, 3, 4, 6, 6, 7, 8, 9, 10, 11, 12, 13},
    {2, 2, 2, 3, 4, 7, 7, 7, 8, 9, 10, 11, 12, 13},           {3, 3, 3, 3, 4, 8, 8, 8, 8, 9, 10, 11, 12, 13},
    {4, 4, 4, 4, 4, 11, 11, 11, 11, 9, 10, 11, 12, 13},       {5, 6, 7, 8, 11, 5, 6, 7, 8, 9, 10, 11, 12, 13},
    {6, 6, 7, 8, 11, 6, 6, 7, 8, 9, 10, 11, 12, 13},          {7, 7, 7, 8, 11, 7, 7, 7, 8, 9, 10, 11, 12, 13},
    {8, 8, 8, 8, 11, 8, 8, 8, 8, 9, 10, 11, 12, 13},          {9, 9, 9, 9, 9, 9, 9, 9, 9, 9, 11, 11, 12, 13},
    {10, 10, 10, 10, 10, 10, 10, 10, 10, 11, 10, 11, 12, 13}, {11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 11, 12, 13},
    {12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 12, 13}, {13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13, 13},
};

Dtype *dtype_promote(Dtype *a, Dtype *b) {
    return dtype_table[promotion[a->number][b->number]];
}

static PyObject *promote(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !Py_IS_TYPE(arguments[0], Dtype_Type) || !Py_IS_TYPE(arguments[1], Dtype_Type)) {
        PyErr_SetString(PyExc_TypeError, "promote takes two dtypes.");
        return NULL;
    }
    return Py_NewRef((PyObject *)dtype_promote((Dtype *)arguments[0], (Dtype *)arguments[1]));
}

static const char *display_name(Dtype *self) {
    return self->number == BOOL ? "bool" : self->name;
}

/* Uses the type's __module__, which is "mlx.core" while ingot stands in for mlx. */
static PyObject *dtype_repr(Dtype *self) {
    PyObject *module = PyObject_GetAttrString((PyObject *)Dtype_Type, "__module__");
    if (module == NULL)
        return NULL;
    PyObject *text = PyUnicode_FromFormat("%S.%s", module, display_name(self));
    Py_DECREF(module);
    return text;
}

static PyObject *dtype_name(Dtype *self, void *Py_UNUSED(closure)) {
    return PyUnicode_FromString(display_name(self));
}

/* Pickled by name, so that the singletons stay singletons. */
static PyObject *dtype_reduce(Dtype *self, PyObject *Py_UNUSED(ignored)) {
    PyObject *function = REQUIRED(dtype_named);
    return function == NULL ? NULL : Py_BuildValue("O(s)", function, self->name);
}

/* That of bfloat16 is imported when it is first used. */
PyObject *dtype_numpy(Dtype *self) {
    if (self->numpy == NULL) {
        PyObject *function = REQUIRED(numpy_bfloat16);
        PyObject *found = function == NULL ? NULL : PyObject_CallNoArgs(function);
        Py_XSETREF(self->numpy, found);
    }
    return self->numpy;
}

static PyObject *get_numpy(Dtype *self, void *Py_UNUSED(closure)) {
    return Py_XNewRef(dtype_numpy(self));
}

static int set_numpy(Dtype *self, PyObject *numpy, void *Py_UNUSED(closure)) {
    Py_XSETREF(self->numpy, Py_XNewRef(numpy));
    return 0;
}

static PyMemberDef members[] = {
    {"size", T_INT, offsetof(Dtype, itemsize), READONLY, "Size of one element in bytes."},
    {"number", T_INT, offsetof(Dtype, number), READONLY, "Position among the dtypes, from bool_ to complex64."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef properties[] = {
    {"name", (getter)dtype_name, NULL, "The name without the module.", NULL},
    {"numpy", (getter)get_numpy, (setter)set_numpy, "The numpy.dtype of arrays that hold such elements.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMethodDef methods[] = {
    {"__reduce__", (PyCFunction)dtype_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_repr, dtype_repr},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_methods, methods},
    {Py_tp_doc, "The type of an array's elements."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot.core.Dtype",
    .basicsize = sizeof(Dtype),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

static PyMethodDef functions[] = {
    {"promote", (PyCFunction)(void (*)(void))promote, METH_FASTCALL, "The dtype that holds two dtypes, as MLX has it."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_dtype(PyObject *module) {
    Dtype_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (Dtype_Type == NULL || PyModule_AddObjectRef(module, "Dtype", (PyObject *)Dtype_Type) < 0)
        return -1;
    for (int i = 0; i < DTYPE_COUNT; i++) {
        Dtype *dtype = PyObject_New(Dtype, Dtype_Type);
        if (dtype == NULL)
            return -1;
        dtype->name = descriptions[i].name;
        dtype->number = i;
        dtype->itemsize = descriptions[i].itemsize;
        dtype->numpy = NULL;
        dtype_table[i] = dtype;
        if (PyModule_AddObjectRef(module, dtype->name, (PyObject *)dtype) < 0)
            return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
