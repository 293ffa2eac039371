/* Guards: the attributes and variables that a traced function has read, and whether they are unchanged.
 *
 * A guard is a tuple (object, source, name, expected, key):
 *   object    the index of an object in the signature, a weak reference, or an object
 *   source    where the attribute was found, see below
 *   expected  the value: the guard holds if the attribute is still the same object. MUTABLE for values that can change
 *             in place. A weak reference stands for its referent
 *   key       the value's `guard_key`, to compare other objects by; None if the value is compared by identity alone
 * A guard on an object that it references weakly fails once the object is gone, because another may have its address. */
#include "calls/structure.h"

enum {
    IN_INSTANCE,
    IN_CLASS,
    IN_SLOT,
    IN_ITEMS, /* of a dict whose items are attributes, as those of modules are */
    WHOLE_DICT,
    NOWHERE,
    IS_THERE, /* no attribute: that the object still exists */
    /* Variables: */
    IN_CELL,     /* of a function; the name is the number of a free variable */
    IN_GLOBALS,  /* of a function */
    IN_DEFAULTS, /* of a function; the name is a position, or that of a keyword-only parameter */
    OF_CLASS,    /* of the object, which is a class */
    CODE_OF,     /* a function, without a name: tools that reload modules replace its code */
};

static PyObject *mutable_mark;

/* A new reference; NULL if it is gone. */
static PyObject *referent(PyObject *reference) {
    return PyWeakref_Check(reference) ? ingot_referent(reference) : Py_NewRef(reference);
}

static PyObject *current_default(PyObject *function, PyObject *name) {
    PyObject *keywords = PyFunction_GET_KW_DEFAULTS(function), *defaults = PyFunction_GET_DEFAULTS(function);
    if (PyUnicode_Check(name))
        return keywords == NULL ? NULL : ingot_dict_get(keywords, name);
    Py_ssize_t position = PyLong_AsSsize_t(name);
    bool is_there = defaults != NULL && position >= 0 && position < PyTuple_GET_SIZE(defaults);
    return is_there ? Py_NewRef(PyTuple_GET_ITEM(defaults, position)) : NULL;
}

/* The current value of a variable: a new reference; NULL without an error if there is none. */
static PyObject *current_variable(PyObject *object, long source, PyObject *name) {
    if (source == OF_CLASS)
        return PyType_Check(object) ? ingot_class_attribute((PyTypeObject *)object, name) : NULL;
    if (!PyFunction_Check(object))
        return NULL;
    if (source == IN_GLOBALS)
        return ingot_dict_get(PyFunction_GET_GLOBALS(object), name);
    if (source == IN_DEFAULTS)
        return current_default(object, name);
    if (source == CODE_OF)
        return Py_NewRef(PyFunction_GET_CODE(object));
    PyObject *closure = PyFunction_GET_CLOSURE(object);
    Py_ssize_t position = PyLong_AsSsize_t(name);
    if (closure == NULL || position < 0 || position >= PyTuple_GET_SIZE(closure))
        return NULL;
    return PyCell_Get(PyTuple_GET_ITEM(closure, position));
}

static PyObject *current_value(PyObject *object, long source, PyObject *name) {
    if (source >= IN_CELL)
        return current_variable(object, source, name);
    if (source == WHOLE_DICT)
        return instance_dict(object);
    if (source == IN_ITEMS)
        return PyDict_Check(object) ? ingot_dict_get(object, name) : NULL;
    PyObject *dict = instance_dict(object), *value = dict == NULL ? NULL : ingot_dict_get(dict, name);
    Py_XDECREF(dict);
    if (source == IN_INSTANCE || value == NULL) {
        if (source == IN_INSTANCE || PyErr_Occurred())
            return value;
    } else {
        Py_DECREF(value); /* it shadows the class attribute */
        return NULL;
    }
    if (source == IN_CLASS)
        return ingot_class_attribute(Py_TYPE(object), name);
    value = PyObject_GenericGetAttr(object, name);
    if (value == NULL && PyErr_ExceptionMatches(PyExc_AttributeError))
        PyErr_Clear();
    return value;
}

static int is_absent(PyObject *object, PyObject *name) {
    PyObject *dict = instance_dict(object);
    int is_there = dict == NULL ? 0 : PyDict_Contains(dict, name);
    Py_XDECREF(dict);
    if (is_there == 0 && PyDict_Check(object))
        is_there = PyDict_Contains(object, name);
    if (is_there != 0)
        return is_there < 0 ? -1 : 0;
    PyObject *in_class = ingot_class_attribute(Py_TYPE(object), name);
    bool is_slot = in_class != NULL && Py_TYPE(in_class) == &PyMemberDescr_Type;
    Py_XDECREF(in_class);
    if (!is_slot)
        return in_class == NULL;
    PyObject *value = current_value(object, IN_SLOT, name);
    Py_XDECREF(value);
    return value == NULL && !PyErr_Occurred();
}

/* The key that a value is compared by: constants and containers by value, objects by identity. Arrays in objects are inputs
 * or constants of the trace, so their values do not matter here; arrays in classes are neither, and are compared. */
static PyObject *key_of(PyObject *value, long source) {
    Signature self;
    PyObject *key = NULL;
    bool begun = begin_signature(&self, true, false);
    self.by_identity = true;
    self.nodes = source == IN_CLASS || source == OF_CLASS;
    if (begun && add_captured(&self, value, false) == 0)
        key = finished_key(&self);
    end_signature(&self);
    return key;
}

static int has_key(PyObject *value, long source, PyObject *expected) {
    PyObject *key = key_of(value, source);
    if (key == NULL) {
        if (!PyErr_ExceptionMatches(PyExc_ValueError))
            return -1;
        PyErr_Clear(); /* it cannot be compared, whereas the traced value could */
        return 0;
    }
    int is_equal = PyObject_RichCompareBool(key, expected, Py_EQ);
    Py_DECREF(key);
    return is_equal;
}

static bool is_same(PyObject *value, PyObject *expected) {
    if (!PyWeakref_Check(expected))
        return value == expected;
    PyObject *object = ingot_referent(expected);
    Py_XDECREF(object);
    return object != NULL && value == object;
}

static int guard_holds(PyObject *guard, PyObject *objects) {
    PyObject *object = PyTuple_GET_ITEM(guard, 0), *name = PyTuple_GET_ITEM(guard, 2);
    PyObject *expected = PyTuple_GET_ITEM(guard, 3), *key = PyTuple_GET_ITEM(guard, 4);
    long source = PyLong_AsLong(PyTuple_GET_ITEM(guard, 1));
    if (PyLong_CheckExact(object)) {
        Py_ssize_t number = PyLong_AsSsize_t(object);
        if (objects == NULL || number >= PyList_GET_SIZE(objects))
            return 0;
        object = Py_NewRef(PyList_GET_ITEM(objects, number));
    } else if ((object = referent(object)) == NULL) {
        return PyErr_Occurred() ? -1 : 0;
    }
    int holds;
    if (source == IS_THERE) {
        holds = 1;
    } else if (source == NOWHERE) {
        holds = is_absent(object, name);
    } else {
        PyObject *value = current_value(object, source, name);
        if (value == NULL)
            holds = PyErr_Occurred() ? -1 : 0;
        else if (is_same(value, expected))
            holds = 1;
        else
            holds = key == Py_None ? 0 : has_key(value, source, key);
        Py_XDECREF(value);
    }
    Py_DECREF(object);
    return holds;
}

int guards_hold(PyObject *guards, PyObject *objects) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(guards); i++) {
        int holds = guard_holds(PyTuple_GET_ITEM(guards, i), objects);
        if (holds != 1)
            return holds;
    }
    return 1;
}

/* broken_guard(guards, objects) -> the first that does not hold, or None */
static PyObject *broken_guard(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *guards, *objects;
    if (!PyArg_ParseTuple(arguments, "O!O!:broken_guard", &PyTuple_Type, &guards, &PyList_Type, &objects))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(guards); i++) {
        int holds = guard_holds(PyTuple_GET_ITEM(guards, i), objects);
        if (holds < 0)
            return NULL;
        if (!holds)
            return Py_NewRef(PyTuple_GET_ITEM(guards, i));
    }
    Py_RETURN_NONE;
}

/* guard_key(value, source) -> the key of an attribute's value */
static PyObject *guard_key(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *value;
    long source;
    return PyArg_ParseTuple(arguments, "Ol:guard_key", &value, &source) ? key_of(value, source) : NULL;
}

LOCKS_METHOD(guard_key)
LOCKS_METHOD(broken_guard)

static PyMethodDef functions[] = {
    {"guard_key", LOCKED(guard_key), METH_VARARGS,
     "guard_key(value, source) -> key of an attribute's value; objects by identity"},
    {"broken_guard", LOCKED(broken_guard), METH_VARARGS,
     "broken_guard(guards, objects) -> the first that does not hold, or None"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_guards(PyObject *module) {
    mutable_mark = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    if (mutable_mark == NULL || PyModule_AddObjectRef(module, "MUTABLE", mutable_mark) < 0 ||
        PyModule_AddIntConstant(module, "IN_INSTANCE", IN_INSTANCE) < 0 ||
        PyModule_AddIntConstant(module, "IN_CLASS", IN_CLASS) < 0 || PyModule_AddIntConstant(module, "IN_SLOT", IN_SLOT) < 0 ||
        PyModule_AddIntConstant(module, "IN_ITEMS", IN_ITEMS) < 0 ||
        PyModule_AddIntConstant(module, "IS_THERE", IS_THERE) < 0 ||
        PyModule_AddIntConstant(module, "WHOLE_DICT", WHOLE_DICT) < 0 ||
        PyModule_AddIntConstant(module, "IN_CELL", IN_CELL) < 0 ||
        PyModule_AddIntConstant(module, "IN_GLOBALS", IN_GLOBALS) < 0 ||
        PyModule_AddIntConstant(module, "IN_DEFAULTS", IN_DEFAULTS) < 0 ||
        PyModule_AddIntConstant(module, "CODE_OF", CODE_OF) < 0 || PyModule_AddIntConstant(module, "OF_CLASS", OF_CLASS) < 0 ||
        PyModule_AddIntConstant(module, "NOWHERE", NOWHERE) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
