/* Checked: a public function whose arguments are checked before it is called.
 *
 * The kinds of values that each parameter accepts are a bit set, which graph/boundary/ derives from the function's
 * annotations at the first call. Values of the usual kinds are recognised here, in nanoseconds. Anything else goes
 * to Python (the callback taken_arguments), which either converts it or raises an error that names the parameter. */
#include "call_memo.h"
#include <structmember.h>

/* In the order of the bits in graph/boundary/kinds.py. */
enum {
    NONE = 1,
    FLAG = 2,
    INTEGER = 4,
    REAL = 8,
    TEXT = 16,
    ARRAY = 32,
    DTYPE = 64,
    INTEGERS = 128,
    FUNCTION = 256,
    ANYTHING = 512,
    FIRST_CLASS = 1024 /* from here on, instances of the classes below */
};

#define MAX_CLASSES 8

static PyTypeObject *classes[MAX_CLASSES]; /* never let go */
static int class_count;

#define MAX_PARAMETERS 24

typedef struct {
    PyObject_HEAD
    PyObject *function;
    PyObject *names;      /* tuple of the named parameters, positional ones first; NULL before the first call */
    Py_ssize_t positions; /* how many of them may be passed by position */
    unsigned kinds[MAX_PARAMETERS];
    unsigned others;     /* the kinds that *args accepts */
    Py_ssize_t required; /* how many parameters have no default */
    char by_shapes;      /* the graph it builds depends only on shapes, dtypes and non-array arguments: see call_memo.c */
    char subscripts;     /* it evaluates the masks among its arguments, so that calls with one are not cached */
    char sets_item;      /* it re-points its first argument instead of returning a result */
    PyObject *dictionary;
    PyObject *weak_references;
    vectorcallfunc vectorcall;
} Checked;

static PyTypeObject *Checked_Type;

/* Whether an int fits in 64 bits: longer ones are left to Python. */
static bool is_plain_int(PyObject *value) {
    if (!PyLong_CheckExact(value))
        return false;
    int overflow;
    PyLong_AsLongLongAndOverflow(value, &overflow);
    return overflow == 0;
}

static bool is_plain_ints(PyObject *value) {
    if (!PyTuple_CheckExact(value) && !PyList_CheckExact(value))
        return false;
    PyObject *steady = ingot_steady_sequence(value);
    if (steady == NULL) { /* out of memory: left to Python */
        PyErr_Clear();
        return false;
    }
    bool all_plain = true;
    for (Py_ssize_t i = 0; all_plain && i < PySequence_Fast_GET_SIZE(steady); i++)
        all_plain = is_plain_int(PySequence_Fast_GET_ITEM(steady, i));
    Py_DECREF(steady);
    return all_plain;
}

static bool is_instance(PyObject *value, unsigned kinds) {
    for (int i = 0; i < class_count; i++) {
        if (kinds & ((unsigned)FIRST_CLASS << i) && Py_IS_TYPE(value, classes[i]))
            return true;
    }
    return false;
}

static bool is_usual(PyObject *value, unsigned kinds) {
    return (kinds & ANYTHING) || (kinds & ARRAY && is_array(value)) || (kinds & NONE && value == Py_None) ||
           (kinds & INTEGER && is_plain_int(value)) || (kinds & FLAG && PyBool_Check(value)) ||
           (kinds & REAL && PyFloat_CheckExact(value)) || (kinds & INTEGERS && is_plain_ints(value)) ||
           (kinds & TEXT && PyUnicode_CheckExact(value)) || (kinds & DTYPE && Py_IS_TYPE(value, Dtype_Type)) ||
           (kinds & FUNCTION && PyFunction_Check(value)) || (kinds >= FIRST_CLASS && is_instance(value, kinds));
}

static unsigned kinds_of_keyword(Checked *self, PyObject *name) {
    Py_ssize_t count = PyTuple_GET_SIZE(self->names);
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyTuple_GET_ITEM(self->names, i) == name)
            return self->kinds[i];
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        if (PyUnicode_Compare(PyTuple_GET_ITEM(self->names, i), name) == 0)
            return self->kinds[i];
    }
    return 0; /* unknown: Python raises, unless the function takes **kwargs */
}

static bool all_usual(Checked *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    Py_ssize_t named = keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords);
    if (count + named < self->required) /* Python's error says which are missing, and may know what was meant */
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!is_usual(arguments[i], i < self->positions ? self->kinds[i] : self->others))
            return false;
    }
    for (Py_ssize_t i = 0; i < named; i++) {
        if (!is_usual(arguments[count + i], kinds_of_keyword(self, PyTuple_GET_ITEM(keywords, i))))
            return false;
    }
    return true;
}

/* Stores what the callback parameter_kinds returns: names, how many of them are positional, their kinds, the kinds
 * of *args, how many have no default. */
static int learn(Checked *self) {
    if (REQUIRED(parameter_kinds) == NULL)
        return -1;
    PyObject *answer = PyObject_CallOneArg(callbacks.parameter_kinds, (PyObject *)self);
    if (answer == NULL)
        return -1;
    PyObject *names, *kinds;
    Py_ssize_t positions, required;
    unsigned others;
    int result = -1;
    if (!PyArg_ParseTuple(answer, "O!nO!In:parameter_kinds", &PyTuple_Type, &names, &positions, &PyTuple_Type, &kinds, &others,
                          &required))
        goto done;
    Py_ssize_t count = PyTuple_GET_SIZE(names);
    if (count > MAX_PARAMETERS || positions > count || PyTuple_GET_SIZE(kinds) != count) {
        PyErr_Format(PyExc_ValueError, "a checked function has at most %d parameters, not %zd.", MAX_PARAMETERS, count);
        goto done;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        unsigned long bits = PyLong_AsUnsignedLong(PyTuple_GET_ITEM(kinds, i));
        if (bits == (unsigned long)-1 && PyErr_Occurred())
            goto done;
        self->kinds[i] = (unsigned)bits;
    }
    self->positions = positions;
    self->others = others;
    self->required = required;
    if (self->names == NULL) /* else another thread was faster */
        self->names = Py_NewRef(names);
    result = 0;
done:
    Py_DECREF(answer);
    return result;
}

/* Slow path: Python converts the arguments that are not of the usual kinds, then the function is called. */
static PyObject *call_with_taken(Checked *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    if (REQUIRED(taken_arguments) == NULL)
        return NULL;
    Py_ssize_t named = keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords);
    PyObject *positional = PyTuple_New(count);
    PyObject *by_name = positional == NULL ? NULL : PyDict_New();
    PyObject *taken = NULL, *result = NULL;
    if (by_name == NULL)
        goto done;
    for (Py_ssize_t i = 0; i < count; i++)
        PyTuple_SET_ITEM(positional, i, Py_NewRef(arguments[i]));
    for (Py_ssize_t i = 0; i < named; i++) {
        if (PyDict_SetItem(by_name, PyTuple_GET_ITEM(keywords, i), arguments[count + i]) < 0)
            goto done;
    }
    taken = PyObject_CallFunctionObjArgs(callbacks.taken_arguments, (PyObject *)self, positional, by_name, NULL);
    if (taken == NULL)
        goto done;
    PyObject *first, *rest;
    if (PyArg_ParseTuple(taken, "O!O!:taken_arguments", &PyTuple_Type, &first, &PyDict_Type, &rest))
        result = PyObject_Call(self->function, first, rest);
done:
    Py_XDECREF(positional);
    Py_XDECREF(by_name);
    Py_XDECREF(taken);
    return result;
}

static PyObject *call_function(Checked *self, PyObject *const *arguments, size_t flagged, PyObject *keywords, bool *usual) {
    Py_ssize_t count = PyVectorcall_NARGS(flagged);
    if (self->names == NULL && learn(self) < 0)
        return NULL;
    *usual = all_usual(self, arguments, count, keywords);
    PyObject *result;
    ENGINE_PAUSE
    result = *usual ? PyObject_Vectorcall(self->function, arguments, flagged, keywords)
                    : call_with_taken(self, arguments, count, keywords);
    ENGINE_RESUME
    return result;
}

/* Calls a by_shapes function, or replays an equal earlier call. */
static PyObject *call_by_shapes(Checked *self, MemoKey *key, PyObject *const *arguments, size_t flagged, PyObject *keywords) {
    PyObject *argument;
    Node *node;
    int found = memo_find(key, &argument, &node);
    if (found < 0)
        return NULL;
    if (found && self->sets_item) {
        array_point_to(arguments[0], node);
        Py_RETURN_NONE;
    }
    if (found && argument != NULL) {
        Py_DECREF(node);
        return Py_NewRef(argument);
    }
    if (found)
        return array_from_node(node);
    bool usual = false;
    PyObject *result = call_function(self, arguments, flagged, keywords, &usual);
    PyObject *object = self->sets_item ? arguments[0] : result;
    if (result != NULL && usual && is_array(object))
        memo_keep(key, ((Array *)object)->node, self->sets_item ? NULL : object);
    return result;
}

/* Whether an array after the first argument may be a mask. */
static bool has_mask(const MemoKey *key) {
    for (int i = 1; i < key->array_count; i++)
        if (((Dtype *)key->nodes[i]->dtype)->number == BOOL)
            return true;
    return false;
}

static PyObject *call_checked(PyObject *object, PyObject *const *arguments, size_t flagged, PyObject *keywords) {
    Checked *self = (Checked *)object;
    PyObject *result;
    bool usual;
    if (self->by_shapes) {
        MemoKey key;
        if (memo_key(&key, object, arguments, PyVectorcall_NARGS(flagged), keywords) && !(self->subscripts && has_mask(&key)))
            result = call_by_shapes(self, &key, arguments, flagged, keywords);
        else
            result = call_function(self, arguments, flagged, keywords, &usual);
        memo_key_release(&key);
    } else {
        result = call_function(self, arguments, flagged, keywords, &usual);
    }
    if (result == NULL)
        ingot_shorten_traceback(); /* errors leave the package here */
    return result;
}

static PyObject *checked_call(PyObject *object, PyObject *const *arguments, size_t flagged, PyObject *keywords) {
    PyObject *result;
    ENGINE_BEGIN
    result = call_checked(object, arguments, flagged, keywords);
    ENGINE_END
    return result;
}

static PyObject *checked_get(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(type)) {
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

static PyObject *checked_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    PyObject *function;
    if (!PyArg_ParseTuple(arguments, "O:Checked", &function))
        return NULL;
    if (!PyFunction_Check(function)) {
        PyErr_Format(PyExc_TypeError, "Checked takes a Python function, got %s.", Py_TYPE(function)->tp_name);
        return NULL;
    }
    Checked *self = (Checked *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->function = Py_NewRef(function);
    self->vectorcall = checked_call;
    return (PyObject *)self;
}

static int checked_traverse(Checked *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->function);
    Py_VISIT(self->names);
    Py_VISIT(self->dictionary);
    return 0;
}

static int checked_clear(Checked *self) {
    Py_CLEAR(self->function);
    Py_CLEAR(self->names);
    Py_CLEAR(self->dictionary);
    return 0;
}

static void checked_dealloc(Checked *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    checked_clear(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *checked_repr(Checked *self) {
    return PyObject_Repr(self->function);
}

/* Pickled by name, like functions. */
static PyObject *checked_reduce(Checked *self, PyObject *Py_UNUSED(unused)) {
    return PyObject_GetAttrString((PyObject *)self, "__qualname__");
}

static PyMethodDef methods[] = {
    {"__reduce__", (PyCFunction)checked_reduce, METH_NOARGS, NULL},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"__wrapped__", T_OBJECT, offsetof(Checked, function), READONLY, "The function without the check."},
    {"by_shapes", T_BOOL, offsetof(Checked, by_shapes), 0, "Whether equal calls build equal nodes."},
    {"subscripts", T_BOOL, offsetof(Checked, subscripts), 0, "Whether it evaluates masks."},
    {"sets_item", T_BOOL, offsetof(Checked, sets_item), 0, "Whether it re-points its first argument."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Checked, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(Checked, dictionary), READONLY, NULL},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Checked, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef computed[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, checked_new},
    {Py_tp_dealloc, checked_dealloc},
    {Py_tp_traverse, checked_traverse},
    {Py_tp_clear, checked_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, checked_get},
    {Py_tp_repr, checked_repr},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_getset, computed},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.Checked",
    .basicsize = sizeof(Checked),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = slots,
};

/* class_kind(class) -> the kind of its instances, which are recognised from now on; 0 if there is no room */
static PyObject *class_kind(PyObject *Py_UNUSED(module), PyObject *type) {
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "class_kind takes a class.");
        return NULL;
    }
    int number = 0;
    while (number < class_count && classes[number] != (PyTypeObject *)type)
        number++;
    if (number == MAX_CLASSES)
        return PyLong_FromLong(0);
    if (number == class_count)
        classes[class_count++] = (PyTypeObject *)Py_NewRef(type);
    return PyLong_FromUnsignedLong((unsigned long)FIRST_CLASS << number);
}

LOCKS_METHOD(class_kind)

static PyMethodDef functions[] = {
    {"class_kind", LOCKED(class_kind), METH_O,
     "class_kind(class) -> the kind of its instances, for arguments of public functions"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_checked(PyObject *module) {
    Checked_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (Checked_Type == NULL || PyModule_AddObjectRef(module, "Checked", (PyObject *)Checked_Type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
