/* signature: the part of a compiled call that runs every time: the arrays in its arguments, and a key for the rest. */
#include "native.h"
#include <structmember.h>

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

static int add_bits(Signature *self, double value) {
    unsigned long long bits;
    memcpy(&bits, &value, sizeof bits);
    return add(self, PyLong_FromUnsignedLongLong(bits));
}

/* Numbers with fractions by their bits: NaN must equal itself, and 0.0 is not -0.0. */
static int add_float(Signature *self, PyObject *number) {
    if (add_borrowed(self, (PyObject *)Py_TYPE(number)) < 0)
        return -1;
    return add_bits(self, PyFloat_AS_DOUBLE(number));
}

static int add_complex(Signature *self, PyObject *number) {
    Py_complex value = PyComplex_AsCComplex(number);
    if (add_borrowed(self, (PyObject *)Py_TYPE(number)) < 0 || add_bits(self, value.real) < 0)
        return -1;
    return add_bits(self, value.imag);
}

static int refuse(PyObject *object, const char *way_out) {
    PyErr_Format(PyExc_ValueError, "[compile] arguments are trees of arrays and constants, and %s is neither: %s.",
                 Py_TYPE(object)->tp_name, way_out);
    return -1;
}

/* One of NumPy's numbers, by its bytes for the same reason. */
static bool is_numpy_number(PyObject *object) {
    return strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) == 0 && PyObject_HasAttrString(object, "tobytes");
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
    if (is_numpy_number(object))
        return add(self, PyObject_CallMethod(object, "tobytes", NULL));
    if (PyIter_Check(object))
        return refuse(object, "it is used up by the first call, so pass a list of its items");
    if (PyObject_Hash(object) == -1) {
        if (PyErr_ExceptionMatches(PyExc_TypeError))
            refuse(object, "pass an array, a number, a string, None or another hashable object");
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
    else if (PyFloat_Check(tree))
        status = add_float(self, tree);
    else if (PyComplex_Check(tree))
        status = add_complex(self, tree);
    else if (PyLong_Check(tree) || PyUnicode_CheckExact(tree) || tree == Py_None)
        status = add_borrowed(self, (PyObject *)Py_TYPE(tree)) < 0 ? -1 : add_borrowed(self, tree);
    else
        status = add_other(self, tree);
    Py_LeaveRecursiveCall();
    return status;
}

static bool begin_signature(Signature *self, bool shapes, bool values) {
    *self = (Signature){PyList_New(0), PyList_New(0), shapes, values};
    return self->key != NULL && self->arrays != NULL;
}

static void end_signature(Signature *self) {
    Py_XDECREF(self->key);
    Py_XDECREF(self->arrays);
}

/* signature(tree, shapes, values) -> (key, arrays) */
static PyObject *signature(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3) {
        PyErr_SetString(PyExc_TypeError, "signature takes a tree and two flags.");
        return NULL;
    }
    Signature self;
    PyObject *result = NULL;
    if (begin_signature(&self, arguments[1] == Py_True, arguments[2] == Py_True) && add_tree(&self, arguments[0]) == 0) {
        PyObject *key = PyList_AsTuple(self.key);
        if (key != NULL)
            result = Py_BuildValue("NO", key, self.arrays);
    }
    end_signature(&self);
    return result;
}

/* FastCall: the base of compiled functions. A call whose signature was seen builds its lazy results here; all others go to the
 * subclass's `slow_call`. */

typedef struct {
    PyObject_HEAD
    PyObject *entries;  /* dict: key -> (op, shapes, dtypes, output ops, builder or None, its UseCounter) */
    PyObject *captured; /* the captured inputs, part of the signature; None without */
    PyObject *counter;  /* the UseCounter of calls that are answered here */
    PyObject *weak_references;
    PyObject *dictionary;
    bool shapes;
} FastCall;

static PyTypeObject *FastCall_Type;
static bool fast_calls_enabled = true;

static PyObject *fast_key(FastCall *self, PyObject *arguments, PyObject **arrays) {
    Signature signature;
    PyObject *key = NULL;
    if (begin_signature(&signature, self->shapes, true) && add_tree(&signature, arguments) == 0 &&
        (self->captured == Py_None || add_tree(&signature, self->captured) == 0) &&
        add_borrowed(&signature, resolve_stream(NULL)) == 0) {
        key = PyList_AsTuple(signature.key);
        *arrays = Py_NewRef(signature.arrays);
    }
    end_signature(&signature);
    return key;
}

static bool follows_transform(PyObject *arrays) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arrays); i++) {
        if (((Array *)PyList_GET_ITEM(arrays, i))->node->tracer)
            return true;
    }
    return false;
}

/* The lazy outputs of a compiled op: a new tuple of arrays. */
static PyObject *apply_entry(PyObject *entry, PyObject *arrays) {
    PyObject *op = PyTuple_GET_ITEM(entry, 0), *shapes = PyTuple_GET_ITEM(entry, 1), *dtypes = PyTuple_GET_ITEM(entry, 2);
    PyObject *output_ops = PyTuple_GET_ITEM(entry, 3), *stream = resolve_stream(NULL);
    Py_ssize_t count = PyList_GET_SIZE(arrays);
    PyObject *inputs = PyTuple_New(count);
    if (inputs == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SET_ITEM(inputs, i, Py_NewRef(((Array *)PyList_GET_ITEM(arrays, i))->node));
    Node *whole = node_new_without_line(op, inputs, shapes, dtypes, stream);
    Py_DECREF(inputs);
    PyObject *source = whole == NULL ? NULL : PyTuple_Pack(1, whole);
    Py_XDECREF(whole);
    PyObject *outputs = source == NULL ? NULL : PyTuple_New(PyTuple_GET_SIZE(output_ops));
    for (Py_ssize_t i = 0; outputs != NULL && i < PyTuple_GET_SIZE(output_ops); i++) {
        Node *node = node_new_without_line(PyTuple_GET_ITEM(output_ops, i), source, PyTuple_GET_ITEM(shapes, i),
                                           PyTuple_GET_ITEM(dtypes, i), stream);
        PyObject *array = node == NULL ? NULL : array_from_node(node);
        if (array == NULL)
            Py_CLEAR(outputs);
        else
            PyTuple_SET_ITEM(outputs, i, array);
    }
    Py_XDECREF(source);
    return outputs;
}

static PyObject *slow_call(FastCall *self, PyObject *arguments, PyObject *keywords, PyObject *key) {
    PyObject *method = PyObject_GetAttrString((PyObject *)self, "slow_call");
    PyObject *empty = keywords == NULL ? PyDict_New() : Py_NewRef(keywords);
    PyObject *result = NULL;
    if (method != NULL && empty != NULL)
        result = PyObject_CallFunctionObjArgs(method, arguments, empty, key == NULL ? Py_None : key, NULL);
    Py_XDECREF(method);
    Py_XDECREF(empty);
    return result;
}

static PyObject *fast_call(FastCall *self, PyObject *arguments, PyObject *keywords) {
    bool plain = keywords == NULL || PyDict_GET_SIZE(keywords) == 0;
    if (!fast_calls_enabled || !plain || self->entries == NULL || recording_sources())
        return slow_call(self, arguments, keywords, NULL);
    PyObject *arrays = NULL, *result = NULL;
    PyObject *key = fast_key(self, arguments, &arrays);
    if (key == NULL)
        return NULL;
    PyObject *entry = PyDict_GetItemWithError(self->entries, key);
    if (entry == NULL || follows_transform(arrays)) {
        if (!PyErr_Occurred())
            result = slow_call(self, arguments, keywords, key);
    } else {
        Py_INCREF(entry);
        ingot_count_use(self->counter);
        ingot_count_use(PyTuple_GET_ITEM(entry, 5));
        PyObject *outputs = apply_entry(entry, arrays);
        PyObject *builder = PyTuple_GET_ITEM(entry, 4);
        if (outputs != NULL)
            result = builder == Py_None ? Py_NewRef(PyTuple_GET_ITEM(outputs, 0)) : PyObject_CallOneArg(builder, outputs);
        Py_XDECREF(outputs);
        Py_DECREF(entry);
    }
    Py_DECREF(key);
    Py_XDECREF(arrays);
    return result;
}

/* prepare(entries, captured, counter, shapes) */
static PyObject *fast_prepare(FastCall *self, PyObject *arguments) {
    PyObject *entries, *captured, *counter;
    int shapes;
    if (!PyArg_ParseTuple(arguments, "O!OO!p:prepare", &PyDict_Type, &entries, &captured, UseCounter_Type, &counter, &shapes))
        return NULL;
    Py_XSETREF(self->entries, Py_NewRef(entries));
    Py_XSETREF(self->captured, Py_NewRef(captured));
    Py_XSETREF(self->counter, Py_NewRef(counter));
    self->shapes = shapes;
    Py_RETURN_NONE;
}

static int fast_traverse(FastCall *self, visitproc visit, void *arg) {
    Py_VISIT(self->entries);
    Py_VISIT(self->captured);
    Py_VISIT(self->counter);
    Py_VISIT(self->dictionary);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int fast_clear(FastCall *self) {
    Py_CLEAR(self->entries);
    Py_CLEAR(self->captured);
    Py_CLEAR(self->counter);
    Py_CLEAR(self->dictionary);
    return 0;
}

static void fast_dealloc(FastCall *self) {
    PyObject_GC_UnTrack(self);
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    fast_clear(self);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef fast_methods[] = {
    {"prepare", (PyCFunction)fast_prepare, METH_VARARGS, "prepare(entries, captured, counter, shapes)"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef fast_members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(FastCall, weak_references), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(FastCall, dictionary), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot fast_slots[] = {
    {Py_tp_call, fast_call},
    {Py_tp_traverse, fast_traverse},
    {Py_tp_clear, fast_clear},
    {Py_tp_dealloc, fast_dealloc},
    {Py_tp_methods, fast_methods},
    {Py_tp_members, fast_members},
    {Py_tp_doc, "The base of compiled functions: calls whose signature was seen."},
    {0, NULL},
};

static PyType_Spec fast_spec = {
    .name = "ingot._native.FastCall",
    .basicsize = sizeof(FastCall),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
    .slots = fast_slots,
};

static PyObject *enable_fast_calls(PyObject *Py_UNUSED(module), PyObject *flag) {
    fast_calls_enabled = PyObject_IsTrue(flag) == 1;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"signature", (PyCFunction)(void (*)(void))signature, METH_FASTCALL,
     "signature(tree, shapes, values) -> (key, arrays): a hashable key of everything but the arrays' values"},
    {"enable_fast_calls", enable_fast_calls, METH_O, "Whether compiled functions may skip their slow_call."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_signature(PyObject *module) {
    FastCall_Type = (PyTypeObject *)PyType_FromSpec(&fast_spec);
    if (FastCall_Type == NULL || PyModule_AddObjectRef(module, "FastCall", (PyObject *)FastCall_Type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
