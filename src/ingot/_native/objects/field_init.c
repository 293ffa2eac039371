/* FieldInit: the `__init__` of a dataclass, which sets its fields.
 *
 * `dataclasses` compiles the source of a function for every class, 140 us each. A FieldInit is made of a list of
 * fields (see graph/lazy_dataclass.py) and accepts the same arguments as that function, with the same errors. */
#include "native.h"
#include <structmember.h>

#define MAX_FIELDS 64

/* Where the value of a field comes from; in the order of the constants of graph/lazy_dataclass.py. */
enum { REQUIRED_ARGUMENT, DEFAULT, FACTORY, FACTORY_ONLY };

typedef struct {
    PyObject *name; /* interned */
    int source;
    PyObject *value; /* the default, or the callable that makes it; None for required arguments */
} InitField;

typedef struct {
    PyObject_HEAD
    PyObject *function_name; /* for errors */
    PyObject *signature;     /* callable that returns an inspect.Signature */
    Py_ssize_t count, parameters, required;
    bool is_frozen; /* the class rejects assignments, but for these */
    bool has_post_init;
    InitField *fields; /* those that are parameters first */
    PyObject *post_init_name;
    PyObject *dictionary;
    vectorcallfunc vectorcall;
} FieldInit;

static PyTypeObject *FieldInit_Type;

static void too_many_arguments(FieldInit *self, Py_ssize_t given) {
    /* `self` counts, as in the errors of Python's functions. */
    Py_ssize_t least = self->required + 1, most = self->parameters + 1;
    if (least == most)
        PyErr_Format(PyExc_TypeError, "%U() takes %zd positional argument%s but %zd were given", self->function_name, most,
                     most == 1 ? "" : "s", given + 1);
    else
        PyErr_Format(PyExc_TypeError, "%U() takes from %zd to %zd positional arguments but %zd were given", self->function_name,
                     least, most, given + 1);
}

static void missing_arguments(FieldInit *self, PyObject *const *values) {
    PyObject *names = PyUnicode_FromString("");
    Py_ssize_t missing = 0, written = 0;
    for (Py_ssize_t i = 0; i < self->required; i++)
        missing += values[i] == NULL;
    for (Py_ssize_t i = 0; names != NULL && i < self->required; i++) {
        if (values[i] != NULL)
            continue;
        const char *before = written == 0 ? "" : written < missing - 1 ? ", " : missing == 2 ? " and " : ", and ";
        Py_SETREF(names, PyUnicode_FromFormat("%U%s'%U'", names, before, self->fields[i].name));
        written++;
    }
    if (names != NULL)
        PyErr_Format(PyExc_TypeError, "%U() missing %zd required positional argument%s: %U", self->function_name, missing,
                     missing == 1 ? "" : "s", names);
    Py_XDECREF(names);
}

/* The number of a parameter; -1 with TypeError if there is none of that name. */
static Py_ssize_t parameter_named(FieldInit *self, PyObject *name) {
    for (Py_ssize_t i = 0; i < self->parameters; i++) {
        if (self->fields[i].name == name)
            return i;
    }
    for (Py_ssize_t i = 0; i < self->parameters; i++) {
        if (PyUnicode_Compare(self->fields[i].name, name) == 0)
            return i;
    }
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%U() got an unexpected keyword argument '%U'", self->function_name, name);
    return -1;
}

/* Sorts arguments by parameter: borrowed references, NULL for what was not given. Errors are found in the order in
 * which calls of Python's functions find them. */
static int bind(FieldInit *self, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords, PyObject **values) {
    for (Py_ssize_t i = 0; i < self->parameters; i++)
        values[i] = i < count ? arguments[i] : NULL;
    Py_ssize_t named = keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords);
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GET_ITEM(keywords, i);
        Py_ssize_t parameter = parameter_named(self, name);
        if (parameter < 0)
            return -1;
        if (values[parameter] != NULL) {
            PyErr_Format(PyExc_TypeError, "%U() got multiple values for argument '%U'", self->function_name, name);
            return -1;
        }
        values[parameter] = arguments[count + i];
    }
    if (count > self->parameters) {
        too_many_arguments(self, count);
        return -1;
    }
    for (Py_ssize_t i = count; i < self->required; i++) {
        if (values[i] == NULL) {
            missing_arguments(self, values);
            return -1;
        }
    }
    return 0;
}

static int set_field(FieldInit *self, PyObject *instance, const InitField *field, PyObject *given) {
    PyObject *value;
    if (given != NULL)
        value = Py_NewRef(given);
    else
        value = field->source == DEFAULT ? Py_NewRef(field->value) : PyObject_CallNoArgs(field->value);
    if (value == NULL)
        return -1;
    int result = self->is_frozen ? PyObject_GenericSetAttr(instance, field->name, value)
                                 : PyObject_SetAttr(instance, field->name, value);
    Py_DECREF(value);
    return result;
}

static PyObject *field_init_call(PyObject *object, PyObject *const *arguments, size_t flagged, PyObject *keywords) {
    FieldInit *self = (FieldInit *)object;
    Py_ssize_t count = PyVectorcall_NARGS(flagged);
    if (count == 0) {
        PyErr_Format(PyExc_TypeError, "%U() missing 1 required positional argument: 'self'", self->function_name);
        return NULL;
    }
    PyObject *instance = arguments[0], *values[MAX_FIELDS];
    if (bind(self, arguments + 1, count - 1, keywords, values) < 0)
        return NULL;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        if (set_field(self, instance, &self->fields[i], i < self->parameters ? values[i] : NULL) < 0)
            return NULL;
    }
    if (self->has_post_init)
        return PyObject_CallMethodNoArgs(instance, self->post_init_name);
    Py_RETURN_NONE;
}

static PyObject *field_init_get(PyObject *self, PyObject *instance, PyObject *Py_UNUSED(type)) {
    return instance == NULL || instance == Py_None ? Py_NewRef(self) : PyMethod_New(self, instance);
}

/* Stores the fields; parameters come first, and required ones first among them. */
static int store_fields(FieldInit *self, PyObject *fields) {
    Py_ssize_t count = PyTuple_GET_SIZE(fields);
    if (count > MAX_FIELDS) {
        PyErr_Format(PyExc_ValueError, "a dataclass has at most %d fields, not %zd.", MAX_FIELDS, count);
        return -1;
    }
    self->fields = PyMem_Calloc((size_t)count + 1, sizeof *self->fields);
    if (self->fields == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    int last = REQUIRED_ARGUMENT;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyObject *name, *value;
        int source;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(fields, i), "UiO:FieldInit", &name, &source, &value))
            return -1;
        if (source < REQUIRED_ARGUMENT || source > FACTORY_ONLY || (source == REQUIRED_ARGUMENT && last != source) ||
            (last == FACTORY_ONLY && source != last)) {
            PyErr_Format(PyExc_TypeError, "field %R follows fields that have to come after it.", name);
            return -1;
        }
        last = source;
        Py_INCREF(name);
        PyUnicode_InternInPlace(&name);
        self->fields[i] = (InitField){name, source, Py_NewRef(value)};
        self->count = i + 1;
        self->required += source == REQUIRED_ARGUMENT;
        self->parameters += source != FACTORY_ONLY;
    }
    return 0;
}

/* FieldInit(function_name, fields, is_frozen, has_post_init, signature) */
static PyObject *field_init_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    PyObject *function_name, *fields, *signature;
    int is_frozen, has_post_init;
    if (!PyArg_ParseTuple(arguments, "UO!ppO:FieldInit", &function_name, &PyTuple_Type, &fields, &is_frozen, &has_post_init,
                          &signature))
        return NULL;
    FieldInit *self = (FieldInit *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->vectorcall = field_init_call;
    self->function_name = Py_NewRef(function_name);
    self->signature = Py_NewRef(signature);
    self->is_frozen = is_frozen;
    self->has_post_init = has_post_init;
    self->post_init_name = PyUnicode_InternFromString("__post_init__");
    if (self->post_init_name == NULL || store_fields(self, fields) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static int field_init_traverse(FieldInit *self, visitproc visit, void *arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->signature);
    Py_VISIT(self->dictionary);
    for (Py_ssize_t i = 0; i < self->count; i++)
        Py_VISIT(self->fields[i].value);
    return 0;
}

static int field_init_clear(FieldInit *self) {
    Py_CLEAR(self->signature);
    Py_CLEAR(self->dictionary);
    self->parameters = self->required = 0;
    for (; self->count > 0; self->count--) {
        Py_CLEAR(self->fields[self->count - 1].name);
        Py_CLEAR(self->fields[self->count - 1].value);
    }
    return 0;
}

static void field_init_dealloc(FieldInit *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    field_init_clear(self);
    PyMem_Free(self->fields);
    Py_XDECREF(self->function_name);
    Py_XDECREF(self->post_init_name);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *field_init_signature(FieldInit *self, void *Py_UNUSED(closure)) {
    if (self->signature == NULL) {
        PyErr_SetString(PyExc_AttributeError, "__signature__");
        return NULL;
    }
    return PyObject_CallNoArgs(self->signature);
}

static PyMemberDef members[] = {
    {"__name__", T_OBJECT, offsetof(FieldInit, function_name), READONLY, NULL},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(FieldInit, vectorcall), READONLY, NULL},
    {"__dictoffset__", T_PYSSIZET, offsetof(FieldInit, dictionary), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef computed[] = {
    {"__dict__", PyObject_GenericGetDict, PyObject_GenericSetDict, NULL, NULL},
    {"__signature__", (getter)field_init_signature, NULL, NULL, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, field_init_new},
    {Py_tp_dealloc, field_init_dealloc},
    {Py_tp_traverse, field_init_traverse},
    {Py_tp_clear, field_init_clear},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_descr_get, field_init_get},
    {Py_tp_members, members},
    {Py_tp_getset, computed},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.FieldInit",
    .basicsize = sizeof(FieldInit),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_METHOD_DESCRIPTOR,
    .slots = slots,
};

int ingot_add_field_init(PyObject *module) {
    FieldInit_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    return FieldInit_Type == NULL ? -1 : PyModule_AddObjectRef(module, "FieldInit", (PyObject *)FieldInit_Type);
}
