/* Instance: a trace instantiated for given shapes. */
#include "calls/instance.h"

#include <structmember.h>

/* ---- instances ---- */

PyTypeObject *Instance_Type;

Instance *instance_create(PyObject *variant, PyObject *trace, PyObject *op, PyObject *result, PyObject *values) {
    Instance *self = PyObject_GC_New(Instance, Instance_Type);
    if (self == NULL)
        return NULL;
    self->variant = Py_NewRef(variant);
    self->trace = Py_NewRef(trace);
    self->op = Py_NewRef(op);
    self->result = Py_NewRef(result);
    self->values = Py_NewRef(values);
    self->entry = Py_NewRef(Py_None);
    self->uses = PyObject_CallNoArgs((PyObject *)UseCounter_Type);
    PyObject_GC_Track(self);
    if (self->uses == NULL)
        Py_CLEAR(self);
    else
        ingot_count_use(self->uses);
    return self;
}

/* Instance(variant, trace, op, result, values) */
static PyObject *instance_new(PyTypeObject *Py_UNUSED(type), PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    PyObject *variant, *trace, *op, *result, *values;
    if (!PyArg_ParseTuple(arguments, "OOOOO:Instance", &variant, &trace, &op, &result, &values))
        return NULL;
    PyObject *made;
    ENGINE_BEGIN
    made = (PyObject *)instance_create(variant, trace, op, result, values);
    ENGINE_END
    return made;
}

static int instance_traverse(Instance *self, visitproc visit, void *arg) {
    Py_VISIT(self->variant);
    Py_VISIT(self->trace);
    Py_VISIT(self->op);
    Py_VISIT(self->result);
    Py_VISIT(self->values);
    Py_VISIT(self->entry);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int instance_clear(Instance *self) {
    Py_CLEAR(self->variant);
    Py_CLEAR(self->trace);
    Py_CLEAR(self->op);
    Py_CLEAR(self->result);
    Py_CLEAR(self->values);
    Py_CLEAR(self->entry);
    return 0;
}

static void instance_dealloc(Instance *self) {
    PyObject_GC_UnTrack(self);
    instance_clear(self);
    Py_XDECREF(self->uses);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyMemberDef instance_members[] = {
    {"variant", T_OBJECT, offsetof(Instance, variant), READONLY, "A weak reference to the variant that it belongs to."},
    {"trace", T_OBJECT, offsetof(Instance, trace), READONLY, "The trace that it runs."},
    {"op", T_OBJECT, offsetof(Instance, op), READONLY, "The compiled op."},
    {"result", T_OBJECT, offsetof(Instance, result), READONLY, "How to build the result; None if the recipe does."},
    {"values", T_OBJECT, offsetof(Instance, values), READONLY,
     "The values of the trace's dimensions; None if native code created it."},
    {"uses", T_OBJECT, offsetof(Instance, uses), READONLY, "Counts its uses, including those by the fast path."},
    {NULL, 0, 0, 0, NULL},
};

static PyGetSetDef instance_properties[] = {
    SHARED_FIELD("entry", Instance, entry, "The entry of the fast path, or None."),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot instance_slots[] = {
    {Py_tp_new, instance_new},
    {Py_tp_traverse, instance_traverse},
    {Py_tp_clear, instance_clear},
    {Py_tp_dealloc, instance_dealloc},
    {Py_tp_members, instance_members},
    {Py_tp_getset, instance_properties},
    {Py_tp_doc, "Instance(variant, trace, op, result, values): a trace, instantiated for given shapes."},
    {0, NULL},
};

static PyType_Spec instance_spec = {
    .name = "ingot._native.Instance",
    .basicsize = sizeof(Instance),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = instance_slots,
};

/* ---- programs for shapes, as the compiler sees them (compiler/run/shaped_program.py) ---- */

typedef struct {
    PyObject_HEAD
    PyObject *source, *given, *shapes, *dtypes, *native, *by_strides;
} ShapedBase;

static PyTypeObject *ShapedBase_Type;

static void shaped_dealloc(ShapedBase *self) {
    Py_XDECREF(self->source);
    Py_XDECREF(self->given);
    Py_XDECREF(self->shapes);
    Py_XDECREF(self->dtypes);
    Py_XDECREF(self->native);
    Py_XDECREF(self->by_strides);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyGetSetDef shaped_properties[] = {
    SHARED_FIELD("_source", ShapedBase, source, "The SymbolicProgram that creates it."),
    SHARED_FIELD("_given", ShapedBase, given, "The values of the dimensions; None if the native program has them."),
    SHARED_FIELD("shapes", ShapedBase, shapes, "The shapes of its results."),
    SHARED_FIELD("dtypes", ShapedBase, dtypes, "The dtypes of its results."),
    SHARED_FIELD("native", ShapedBase, native, "The native program, or None while there is no machine code."),
    SHARED_FIELD("by_strides", ShapedBase, by_strides, "Native programs for other layouts of the inputs, or None."),
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot shaped_slots[] = {
    {Py_tp_new, PyType_GenericNew},
    {Py_tp_dealloc, shaped_dealloc},
    {Py_tp_getset, shaped_properties},
    {Py_tp_doc, "The base of programs for one set of shapes."},
    {0, NULL},
};

static PyType_Spec shaped_spec = {
    .name = "ingot._native.ShapedBase",
    .basicsize = sizeof(ShapedBase),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = shaped_slots,
};

PyObject *instance_op(PyObject *source, Program *program, PyObject *dtypes) {
    PyTypeObject *shaped_type = (PyTypeObject *)REQUIRED(shaped_type), *type = (PyTypeObject *)REQUIRED(compiled_type);
    if (shaped_type == NULL || type == NULL)
        return NULL;
    ShapedBase *shaped = (ShapedBase *)shaped_type->tp_alloc(shaped_type, 0);
    if (shaped == NULL)
        return NULL;
    shaped->source = Py_NewRef(source);
    shaped->shapes = Py_NewRef(program->result_shapes);
    shaped->dtypes = Py_NewRef(dtypes);
    shaped->native = Py_NewRef((PyObject *)program);
    PyObject *op = type->tp_alloc(type, 0);
    if (op != NULL && PyObject_GenericSetAttr(op, attribute_names.program, (PyObject *)shaped) < 0)
        Py_CLEAR(op); /* the generic setter: the dataclass is frozen */
    Py_DECREF(shaped);
    return op;
}

int ingot_add_instance(PyObject *module) {
    Instance_Type = (PyTypeObject *)PyType_FromSpec(&instance_spec);
    ShapedBase_Type = (PyTypeObject *)PyType_FromSpec(&shaped_spec);
    if (Instance_Type == NULL || ShapedBase_Type == NULL ||
        PyModule_AddObjectRef(module, "Instance", (PyObject *)Instance_Type) < 0)
        return -1;
    return PyModule_AddObjectRef(module, "ShapedBase", (PyObject *)ShapedBase_Type);
}
