/* FastCall: the base of compiled functions. A call whose signature was seen builds its lazy results here; all others go to the
 * subclass's `slow_call`. */
#include "structure.h"
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    PyObject *entries;  /* dict: key -> (op, shapes, dtypes, output ops, builder or None, its UseCounter, guards or
                         * None, next entry or None) */
    PyObject *captured; /* the captured inputs, part of the signature; None without */
    PyObject *bound;    /* the method, partial or callable object that is called, part of the signature; None for a function */
    PyObject *counter;  /* the UseCounter of calls that are answered here */
    PyObject *weak_references;
    PyObject *dictionary;
    bool shapes, has_receiver;
} FastCall;

static PyTypeObject *FastCall_Type;
static bool fast_calls_enabled = true;

static int fast_signature(FastCall *self, PyObject *arguments, Signature *signature) {
    if (!begin_signature(signature, self->shapes, true) || add_arguments(signature, arguments, self->has_receiver) < 0)
        return -1;
    if (self->captured != Py_None && add_captured(signature, self->captured, false) < 0)
        return -1;
    if (self->bound != Py_None && add_captured(signature, self->bound, true) < 0)
        return -1;
    return PyList_Append(signature->key, resolve_stream(NULL));
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
    if (result == NULL)
        ingot_shorten_traceback();
    return result;
}

/* The first of the entries for a key whose guards hold: a new reference; NULL if there is none, or with an error. */
static PyObject *fitting_entry(FastCall *self, PyObject *key, PyObject *objects) {
    PyObject *entry = Py_XNewRef(PyDict_GetItemWithError(self->entries, key));
    while (entry != NULL && PyTuple_GET_ITEM(entry, 6) != Py_None) {
        int holds = guards_hold(PyTuple_GET_ITEM(entry, 6), objects);
        if (holds > 0)
            return entry;
        PyObject *next = PyTuple_GET_ITEM(entry, 7);
        Py_SETREF(entry, holds < 0 || next == Py_None ? NULL : Py_NewRef(next));
    }
    return entry;
}

static PyObject *run_entry(FastCall *self, PyObject *entry, PyObject *arrays) {
    ingot_count_use(self->counter);
    ingot_count_use(PyTuple_GET_ITEM(entry, 5));
    PyObject *outputs = apply_entry(entry, arrays);
    PyObject *builder = PyTuple_GET_ITEM(entry, 4), *result = NULL;
    if (outputs != NULL)
        result = builder == Py_None ? Py_NewRef(PyTuple_GET_ITEM(outputs, 0)) : PyObject_CallOneArg(builder, outputs);
    Py_XDECREF(outputs);
    return result;
}

static PyObject *fast_call(FastCall *self, PyObject *arguments, PyObject *keywords) {
    bool plain = keywords == NULL || PyDict_GET_SIZE(keywords) == 0;
    if (!fast_calls_enabled || !plain || self->entries == NULL || recording_sources())
        return slow_call(self, arguments, keywords, NULL);
    Signature signature;
    PyObject *key = NULL, *entry = NULL, *result = NULL;
    if (fast_signature(self, arguments, &signature) == 0)
        key = finished_key(&signature);
    if (key != NULL)
        entry = fitting_entry(self, key, signature.objects);
    bool is_known = entry != NULL && !follows_transform(signature.arrays);
    if (is_known)
        result = run_entry(self, entry, signature.arrays);
    Py_XDECREF(entry);
    end_signature(&signature); /* the slow way may have to wait, and should not hold arrays that another thread traces */
    if (key == NULL && PyErr_ExceptionMatches(ForeignArgument))
        PyErr_Clear(); /* the slow way raises it again, and knows what the argument is called */
    if (!is_known && !PyErr_Occurred())
        result = slow_call(self, arguments, keywords, key);
    Py_XDECREF(key);
    return result;
}

/* prepare(entries, captured, bound, counter, shapes, has_receiver) */
static PyObject *fast_prepare(FastCall *self, PyObject *arguments) {
    PyObject *entries, *captured, *bound, *counter;
    int shapes, has_receiver;
    if (!PyArg_ParseTuple(arguments, "O!OOO!pp:prepare", &PyDict_Type, &entries, &captured, &bound, UseCounter_Type, &counter, &shapes,
                          &has_receiver))
        return NULL;
    Py_XSETREF(self->entries, Py_NewRef(entries));
    Py_XSETREF(self->captured, Py_NewRef(captured));
    Py_XSETREF(self->counter, Py_NewRef(counter));
    Py_XSETREF(self->bound, Py_NewRef(bound));
    self->shapes = shapes;
    self->has_receiver = has_receiver;
    Py_RETURN_NONE;
}

static int fast_traverse(FastCall *self, visitproc visit, void *arg) {
    Py_VISIT(self->entries);
    Py_VISIT(self->captured);
    Py_VISIT(self->bound);
    Py_VISIT(self->counter);
    Py_VISIT(self->dictionary);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int fast_clear(FastCall *self) {
    Py_CLEAR(self->entries);
    Py_CLEAR(self->captured);
    Py_CLEAR(self->bound);
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
    {"prepare", (PyCFunction)fast_prepare, METH_VARARGS, "prepare(entries, captured, bound, counter, shapes, has_receiver)"},
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
    {"enable_fast_calls", enable_fast_calls, METH_O, "Whether compiled functions may skip their slow_call."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_fast_call(PyObject *module) {
    FastCall_Type = (PyTypeObject *)PyType_FromSpec(&fast_spec);
    if (FastCall_Type == NULL || PyModule_AddObjectRef(module, "FastCall", (PyObject *)FastCall_Type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
