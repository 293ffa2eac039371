/* FastCall: the base class of compiled functions. Calls with a known signature build their lazy results here; all others
 * go to the subclass's `slow_call`. */
#include "calls/shape_table.h"
#include "calls/structure.h"
#include <structmember.h>

typedef struct {
    PyObject_HEAD
    /* dict: key -> entry, or, if keys have no shapes, a tuple of ShapeTables; NULL if all calls take the slow path */
    PyObject *entries;
    PyObject *captured;      /* the captured inputs, part of the signature; None without */
    PyObject *bound;         /* the bound method, partial or callable object, part of the signature; None for a function */
    PyObject *partial_parts; /* (func, args) of a `bound` partial of constants, which the key then need not contain */
    PyObject *counter;       /* the UseCounter of the fast path */
    PyObject *weak_references;
    PyObject *dictionary;
    bool has_receiver, shapeless;
    bool looks_without_shapes; /* whether calls whose shapes are new are looked up by ranks, too */
} FastCall;

static PyTypeObject *FastCall_Type;
static bool fast_calls_enabled = true;
/* The settings that programs depend on, as a small number at the end of every key; NULL for the usual ones, whose keys end with
 * the address of a stream. */
static PyObject *settings_key;

/* The offsets of functools.partial's fields, from its member descriptors; 0 if there are none, and then partials are not
 * recognised. */
static Py_ssize_t func_offset, args_offset, keywords_offset;

static Py_ssize_t member_offset(PyObject *type, const char *name) {
    PyObject *descriptor = PyType_Check(type) ? PyObject_GetAttrString(type, name) : NULL;
    Py_ssize_t offset = 0;
    if (descriptor != NULL && Py_TYPE(descriptor) == &PyMemberDescr_Type)
        offset = ((PyMemberDescrObject *)descriptor)->d_member->offset;
    Py_XDECREF(descriptor);
    PyErr_Clear();
    return offset;
}

static PyObject *member(PyObject *object, Py_ssize_t offset) { /* borrowed */
    return *(PyObject **)((char *)object + offset);
}

/* Adds the state of the bound callable. Of a partial of constants only the keywords can differ: they are a mutable dict,
 * while func and args change through __setstate__ alone. */
static int add_bound(FastCall *self, Signature *signature) {
    PyObject *bound = self->bound, *parts = self->partial_parts;
    if (parts == NULL || member(bound, func_offset) != PyTuple_GET_ITEM(parts, 0) ||
        member(bound, args_offset) != PyTuple_GET_ITEM(parts, 1))
        return add_captured(signature, bound, true);
    PyObject *keywords = member(bound, keywords_offset);
    if (PyDict_CheckExact(keywords) && PyDict_GET_SIZE(keywords) == 0)
        return 0;
    Py_INCREF(keywords);
    int status = add_captured(signature, keywords, true);
    Py_DECREF(keywords);
    return status;
}

/* (func, args) of a partial that binds constants only; NULL for anything else, or with an error. */
static PyObject *parts_of_partial(PyObject *bound) {
    if ((PyObject *)Py_TYPE(bound) != callbacks.partial_type)
        return NULL;
    func_offset = member_offset(callbacks.partial_type, "func");
    args_offset = member_offset(callbacks.partial_type, "args");
    keywords_offset = member_offset(callbacks.partial_type, "keywords");
    if (func_offset == 0 || args_offset == 0 || keywords_offset == 0)
        return NULL;
    PyObject *function = member(bound, func_offset), *arguments = member(bound, args_offset);
    bool is_fixed = PyTuple_CheckExact(arguments) && kind_of(function) == KIND_CONSTANT;
    for (Py_ssize_t i = 0; is_fixed && i < PyTuple_GET_SIZE(arguments); i++)
        is_fixed = kind_of(PyTuple_GET_ITEM(arguments, i)) == KIND_CONSTANT;
    return is_fixed ? PyTuple_Pack(2, function, arguments) : NULL;
}

/* The key of a call, for the fast and the slow path. */
static int call_signature(FastCall *self, PyObject *arguments, PyObject *keywords, bool shapes, Signature *signature) {
    if (!begin_signature(signature, shapes, true) || add_arguments(signature, arguments, self->has_receiver) < 0)
        return -1;
    if (keywords != NULL && PyDict_GET_SIZE(keywords) > 0 && add_keywords(signature, keywords) < 0)
        return -1;
    if (self->captured != Py_None && add_captured(signature, self->captured, false) < 0)
        return -1;
    if (self->bound != Py_None && add_bound(self, signature) < 0)
        return -1;
    /* By identity, because hashing it would run Python: default streams are never freed, so their addresses are unique. */
    PyObject *stream = PyLong_FromVoidPtr(resolve_stream(NULL));
    int status = stream == NULL ? -1 : PyList_Append(signature->key, stream);
    Py_XDECREF(stream);
    return status < 0 || settings_key == NULL ? status : PyList_Append(signature->key, settings_key);
}

/* (key, arrays, objects): a new reference. */
static PyObject *packed_signature(PyObject *key, const Signature *signature) {
    PyObject *objects = signature->objects == NULL ? PyList_New(0) : Py_NewRef(signature->objects);
    PyObject *packed = objects == NULL ? NULL : PyTuple_Pack(3, key, signature->arrays, objects);
    Py_XDECREF(objects);
    return packed;
}

/* signature(args, kwargs, shapes) -> (key, arrays, objects) */
static PyObject *signature_method(FastCall *self, PyObject *arguments) {
    PyObject *args, *kwargs, *packed = NULL, *key = NULL;
    int shapes;
    if (!PyArg_ParseTuple(arguments, "O!O!p:signature", &PyTuple_Type, &args, &PyDict_Type, &kwargs, &shapes))
        return NULL;
    Signature signature;
    if (call_signature(self, args, kwargs, shapes, &signature) == 0)
        key = finished_key(&signature);
    if (key != NULL)
        packed = packed_signature(key, &signature);
    Py_XDECREF(key);
    end_signature(&signature);
    return packed;
}

static bool has_tracers(PyObject *arrays) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(arrays); i++) {
        if (((Array *)PyList_GET_ITEM(arrays, i))->node->tracer)
            return true;
    }
    return false;
}

/* The lazy outputs of a compiled op: a new tuple of arrays. */
static PyObject *apply_entry(PyObject *entry, PyObject *arrays) {
    PyObject *op = PyTuple_GET_ITEM(entry, OP), *output_ops = PyTuple_GET_ITEM(entry, OUTPUT_OPS);
    PyObject *shapes = PyTuple_GET_ITEM(entry, SHAPES), *dtypes = PyTuple_GET_ITEM(entry, DTYPES);
    PyObject *stream = resolve_stream(NULL);
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

/* ---- implicit states, such as the random state ---- */

static bool has_layout(PyObject *array, PyObject *layout) {
    if (!is_array(array) || ((Array *)array)->node->dtype != PyTuple_GET_ITEM(layout, 1))
        return false;
    return PyObject_RichCompareBool(((Array *)array)->node->shape, PyTuple_GET_ITEM(layout, 0), Py_EQ) == 1;
}

/* Whether the states, pairs of a list and the layouts of its arrays, match the trace. */
static bool states_fit(PyObject *states) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(states); i++) {
        PyObject *state = PyTuple_GET_ITEM(PyTuple_GET_ITEM(states, i), 0);
        PyObject *layouts = PyTuple_GET_ITEM(PyTuple_GET_ITEM(states, i), 1);
        PyObject *steady = ingot_steady_sequence(state);
        bool fits = steady != NULL && PyList_GET_SIZE(steady) == PyTuple_GET_SIZE(layouts);
        for (Py_ssize_t position = 0; fits && position < PyList_GET_SIZE(steady); position++)
            fits = has_layout(PyList_GET_ITEM(steady, position), PyTuple_GET_ITEM(layouts, position));
        Py_XDECREF(steady);
        if (!fits)
            return false;
    }
    return true;
}

/* Adds the `elements`, pairs of a list and an index, to the inputs. */
static int add_states(PyObject *arrays, PyObject *elements) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(elements); i++) {
        PyObject *element = PyTuple_GET_ITEM(elements, i);
        PyObject *array = PySequence_GetItem(PyTuple_GET_ITEM(element, 0), PyLong_AsSsize_t(PyTuple_GET_ITEM(element, 1)));
        int status = array == NULL ? -1 : PyList_Append(arrays, array);
        Py_XDECREF(array);
        if (status < 0)
            return -1;
    }
    return 0;
}

/* Stores outputs into the states; `updates` are triples of a list, an index and the number of an output. */
static int update_states(PyObject *updates, PyObject *outputs) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(updates); i++) {
        PyObject *update = PyTuple_GET_ITEM(updates, i);
        PyObject *output = PyTuple_GetItem(outputs, PyLong_AsSsize_t(PyTuple_GET_ITEM(update, 2)));
        Py_ssize_t position = PyLong_AsSsize_t(PyTuple_GET_ITEM(update, 1));
        if (output == NULL || PyList_SetItem(PyTuple_GET_ITEM(update, 0), position, Py_NewRef(output)) < 0)
            return -1;
    }
    return 0;
}

/* The outputs that belong to the result, of an entry that reads or updates implicit states; None if the lock is taken or
 * the states have changed, and the slow path has to decide. `entry[STATES]` is (states, elements to read, updates, number
 * of outputs that belong to the result). */
static PyObject *apply_with_states(PyObject *entry, PyObject *arrays) {
    PyObject *states = PyTuple_GET_ITEM(entry, STATES);
    int is_locked = ingot_try_lock_states();
    if (is_locked != 1)
        return is_locked < 0 ? NULL : Py_NewRef(Py_None);
    PyObject *outputs = NULL;
    if (!states_fit(PyTuple_GET_ITEM(states, 0)))
        outputs = PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    else if (add_states(arrays, PyTuple_GET_ITEM(states, 1)) == 0)
        outputs = apply_entry(entry, arrays);
    if (outputs != NULL && outputs != Py_None) {
        if (update_states(PyTuple_GET_ITEM(states, 2), outputs) < 0)
            Py_CLEAR(outputs);
        else
            Py_SETREF(outputs, PyTuple_GetSlice(outputs, 0, PyLong_AsSsize_t(PyTuple_GET_ITEM(states, 3))));
    }
    if (ingot_unlock_states() < 0)
        Py_CLEAR(outputs);
    return outputs;
}

/* ---- calls ---- */

static PyObject *slow_call(FastCall *self, PyObject *arguments, PyObject *keywords, PyObject *signature) {
    PyObject *method = PyObject_GetAttr((PyObject *)self, attribute_names.slow_call);
    PyObject *empty = keywords == NULL ? PyDict_New() : Py_NewRef(keywords);
    PyObject *result = NULL;
    ENGINE_PAUSE
    if (method != NULL && empty != NULL)
        result = PyObject_CallFunctionObjArgs(method, arguments, empty, signature == NULL ? Py_None : signature, NULL);
    ENGINE_RESUME
    Py_XDECREF(method);
    Py_XDECREF(empty);
    if (result == NULL)
        ingot_shorten_traceback();
    return result;
}

/* The outcome of looking up a call. */
typedef struct {
    PyObject *entry;     /* the entry that handles it, or NULL */
    PyObject *new_table; /* the table that created the entry for this call, or NULL */
} Answer;

/* The entry of the first trace whose guards hold for the call and which has or creates a program for its shapes: NULL if
 * there is none, or with an error. */
static Answer shaped_entry(FastCall *self, PyObject *key, const Signature *signature) {
    Answer answer = {NULL, NULL};
    PyObject *tables = ingot_dict_get(self->entries, key);
    for (Py_ssize_t i = 0; tables != NULL && i < PyTuple_GET_SIZE(tables) && answer.entry == NULL && !PyErr_Occurred(); i++) {
        PyObject *table = PyTuple_GET_ITEM(tables, i), *guards = shape_table_guards(table);
        if (guards != Py_None && guards_hold(guards, signature->objects) != 1)
            continue;
        bool is_new;
        answer.entry = shape_table_entry(table, signature->arrays, &is_new);
        if (answer.entry != NULL && is_new)
            answer.new_table = Py_NewRef(table);
    }
    Py_XDECREF(tables);
    return answer;
}

/* The first of the entries for a key whose guards hold: a new reference; NULL if there is none, or with an error. */
static PyObject *fitting_entry(FastCall *self, PyObject *key, PyObject *objects) {
    PyObject *entry = ingot_dict_get(self->entries, key);
    while (entry != NULL && PyTuple_GET_ITEM(entry, GUARDS) != Py_None) {
        int holds = guards_hold(PyTuple_GET_ITEM(entry, GUARDS), objects);
        if (holds > 0)
            return entry;
        PyObject *next = PyTuple_GET_ITEM(entry, NEXT);
        Py_SETREF(entry, holds < 0 || next == Py_None ? NULL : Py_NewRef(next));
    }
    return entry;
}

/* The result of a call; NotImplemented if it needs the slow path. */
static PyObject *run_entry(FastCall *self, Answer answer, PyObject *arrays) {
    PyObject *entry = answer.entry;
    Py_ssize_t count = PyList_GET_SIZE(arrays); /* states are added */
    bool is_pure = PyTuple_GET_ITEM(entry, STATES) == Py_None;
    PyObject *outputs = is_pure ? apply_entry(entry, arrays) : apply_with_states(entry, arrays);
    if (outputs == Py_None) {
        Py_DECREF(outputs);
        return Py_NewRef(Py_NotImplemented);
    }
    if (answer.new_table == NULL)
        ingot_count_use(self->counter);
    else if (outputs != NULL && shape_table_note_new(answer.new_table, arrays, count) < 0)
        Py_CLEAR(outputs);
    ingot_count_use(PyTuple_GET_ITEM(entry, COUNTER));
    PyObject *builder = PyTuple_GET_ITEM(entry, BUILDER), *result = NULL;
    if (outputs != NULL)
        result = builder == Py_None ? Py_NewRef(PyTuple_GET_ITEM(outputs, 0)) : PyObject_CallOneArg(builder, outputs);
    Py_XDECREF(outputs);
    return result;
}

/* The result of a call with this signature; NotImplemented, or NULL with an error, if it needs the slow path. */
static PyObject *answered(FastCall *self, PyObject *key, const Signature *signature) {
    Answer answer = {NULL, NULL};
    if (!signature->shapes)
        answer = shaped_entry(self, key, signature);
    else
        answer.entry = fitting_entry(self, key, signature->objects);
    PyObject *result = answer.entry == NULL ? Py_NewRef(Py_NotImplemented) : run_entry(self, answer, signature->arrays);
    Py_XDECREF(answer.entry);
    Py_XDECREF(answer.new_table);
    return result;
}

/* The result of a call with new shapes, for whose lengths there may be a trace with symbols; NotImplemented, or NULL with an
 * error, if it needs the slow path. */
static PyObject *answered_without_shapes(FastCall *self, PyObject *arguments) {
    Signature signature;
    PyObject *key = NULL, *result = NULL;
    if (call_signature(self, arguments, NULL, false, &signature) == 0)
        key = finished_key(&signature);
    if (key != NULL)
        result = answered(self, key, &signature);
    Py_XDECREF(key);
    end_signature(&signature);
    return result;
}

static PyObject *call(FastCall *self, PyObject *arguments, PyObject *keywords) {
    bool plain = keywords == NULL || PyDict_GET_SIZE(keywords) == 0;
    if (!fast_calls_enabled || !plain || self->entries == NULL || recording_sources())
        return slow_call(self, arguments, keywords, NULL);
    Signature signature;
    PyObject *key = NULL, *packed = NULL;
    PyObject *result = Py_NewRef(Py_NotImplemented);
    if (call_signature(self, arguments, NULL, !self->shapeless, &signature) == 0)
        key = finished_key(&signature);
    if (key != NULL && !has_tracers(signature.arrays)) {
        Py_SETREF(result, answered(self, key, &signature));
        if (self->looks_without_shapes && result == Py_NotImplemented && !PyErr_Occurred())
            Py_SETREF(result, answered_without_shapes(self, arguments));
    }
    bool is_known = result != Py_NotImplemented;
    /* The slow path reads captured containers and objects again, under a lock. No references may be held until then,
     * because tracing counts references. */
    bool is_plain = self->captured == Py_None && signature.objects == NULL && signature.inside == 0;
    if (!is_known && key != NULL && !PyErr_Occurred())
        packed = is_plain ? packed_signature(key, &signature) : PyTuple_Pack(3, key, Py_None, Py_None);
    Py_XDECREF(key);
    end_signature(&signature);
    if (is_known)
        return result;
    Py_DECREF(result);
    if (PyErr_Occurred() && PyErr_ExceptionMatches(ForeignArgument))
        PyErr_Clear(); /* the slow path raises it again, and knows the name of the argument */
    result = PyErr_Occurred() ? NULL : slow_call(self, arguments, keywords, packed);
    Py_XDECREF(packed);
    return result;
}

static PyObject *fast_call(PyObject *self, PyObject *arguments, PyObject *keywords) {
    PyObject *result;
    ENGINE_BEGIN
    result = call((FastCall *)self, arguments, keywords);
    ENGINE_END
    return result;
}

/* prepare(entries or None, captured, bound, counter, has_receiver, shapeless) */
static PyObject *fast_prepare(FastCall *self, PyObject *arguments) {
    PyObject *entries, *captured, *bound, *counter;
    int has_receiver, shapeless;
    if (!PyArg_ParseTuple(arguments, "OOOO!pp:prepare", &entries, &captured, &bound, UseCounter_Type, &counter, &has_receiver,
                          &shapeless))
        return NULL;
    if (entries != Py_None && !PyDict_Check(entries)) {
        PyErr_SetString(PyExc_TypeError, "prepare takes a dict of entries or None.");
        return NULL;
    }
    Py_XSETREF(self->entries, entries == Py_None ? NULL : Py_NewRef(entries));
    Py_XSETREF(self->captured, Py_NewRef(captured));
    Py_XSETREF(self->counter, Py_NewRef(counter));
    Py_XSETREF(self->bound, Py_NewRef(bound));
    Py_XSETREF(self->partial_parts, parts_of_partial(bound));
    if (PyErr_Occurred())
        return NULL;
    self->has_receiver = has_receiver;
    self->shapeless = shapeless;
    Py_RETURN_NONE;
}

static PyObject *look_without_shapes(FastCall *self, PyObject *Py_UNUSED(nothing)) {
    self->looks_without_shapes = true;
    Py_RETURN_NONE;
}

static int fast_traverse(FastCall *self, visitproc visit, void *arg) {
    Py_VISIT(self->entries);
    Py_VISIT(self->captured);
    Py_VISIT(self->bound);
    Py_VISIT(self->partial_parts);
    Py_VISIT(self->counter);
    Py_VISIT(self->dictionary);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int fast_clear(FastCall *self) {
    Py_CLEAR(self->entries);
    Py_CLEAR(self->captured);
    Py_CLEAR(self->bound);
    Py_CLEAR(self->partial_parts);
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

LOCKS_METHOD(fast_prepare)
LOCKS_METHOD(look_without_shapes)
LOCKS_METHOD(signature_method)

static PyMethodDef fast_methods[] = {
    {"prepare", (PyCFunction)LOCKED(fast_prepare), METH_VARARGS,
     "prepare(entries or None, captured, bound, counter, has_receiver, shapeless)"},
    {"look_without_shapes", (PyCFunction)LOCKED(look_without_shapes), METH_NOARGS,
     "look_without_shapes(): from now on, looks for calls with new shapes by the numbers of axes, too"},
    {"signature", (PyCFunction)LOCKED(signature_method), METH_VARARGS,
     "signature(args, kwargs, shapes) -> (key, arrays, objects): a hashable key of everything but the values of arrays and the "
     "plain attributes of objects"},
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
    {Py_tp_doc, "The base of compiled functions, which handles calls with a known signature."},
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

static PyObject *set_settings_key(PyObject *Py_UNUSED(module), PyObject *key) {
    if (!PyLong_CheckExact(key)) {
        PyErr_SetString(PyExc_TypeError, "set_settings_key takes an int.");
        return NULL;
    }
    Py_XSETREF(settings_key, PyObject_IsTrue(key) == 1 ? Py_NewRef(key) : NULL);
    Py_RETURN_NONE;
}

LOCKS_METHOD(enable_fast_calls)
LOCKS_METHOD(set_settings_key)

static PyMethodDef functions[] = {
    {"enable_fast_calls", LOCKED(enable_fast_calls), METH_O,
     "enable_fast_calls(flag): whether compiled functions may use the fast path"},
    {"set_settings_key", LOCKED(set_settings_key), METH_O,
     "set_settings_key(number): the number of the settings in keys of calls, 0 for the usual ones"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_fast_call(PyObject *module) {
    FastCall_Type = (PyTypeObject *)PyType_FromSpec(&fast_spec);
    if (FastCall_Type == NULL || PyModule_AddObjectRef(module, "FastCall", (PyObject *)FastCall_Type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
