/* Items of nn.Module as attributes. A decoder reads several hundred per token, and a `__getattr__` in Python costs each of
 * them an AttributeError and a frame. nn/module.py puts the method into the class. */
#include "calls/structure.h"
#include "native.h"

static PyObject *fallback; /* Module.__getattr__ */

/* The item of that name: a new reference; NULL if there is none or if it is None, with an exception on error. */
static PyObject *item_of(PyObject *module, PyObject *name) {
    PyObject *item = ingot_dict_get(module, name);
    if (item == Py_None)
        Py_CLEAR(item);
    return item;
}

/* The item of that name; otherwise, the error for a missing attribute. */
static PyObject *item_or_error(PyObject *module, PyObject *name) {
    PyObject *item = item_of(module, name);
    return item != NULL || PyErr_Occurred() ? item : PyObject_GenericGetAttr(module, name);
}

#ifndef Py_GIL_DISABLED

/* What the interpreter does for classes with a `__getattr__`, without raising an AttributeError for each item. */
static PyObject *attribute_or_item(PyObject *module, PyObject *name) {
    PyObject *found = _PyObject_GenericGetAttrWithDict(module, name, NULL, 1);
    return found != NULL || PyErr_Occurred() ? found : item_or_error(module, name);
}

static bool is_class_attribute(PyTypeObject *type, PyObject **name, const char *text, PyObject *expected) {
    if (*name == NULL && (*name = PyUnicode_InternFromString(text)) == NULL) {
        PyErr_Clear();
        return false;
    }
    PyObject *found = ingot_class_attribute(type, *name);
    PyObject *usual = expected != NULL ? Py_NewRef(expected) : ingot_class_attribute(&PyDict_Type, *name);
    Py_XDECREF(found);
    Py_XDECREF(usual);
    return found == usual;
}

/* Puts `attribute_or_item` into the slot of a class that overrides neither `__getattr__` nor `__getattribute__`. If one of
 * them is assigned to the class or a base later, the interpreter resets the slot. Without a GIL, that could happen at the
 * same time. */
static void shorten_lookup(PyTypeObject *type) {
    static PyObject *getattr, *getattribute;
    if ((type->tp_flags & Py_TPFLAGS_HEAPTYPE) && is_class_attribute(type, &getattr, "__getattr__", fallback) &&
        is_class_attribute(type, &getattribute, "__getattribute__", NULL))
        type->tp_getattro = attribute_or_item;
}

#else

static void shorten_lookup(PyTypeObject *Py_UNUSED(type)) {
}

#endif

static PyObject *get_item(PyObject *module, PyObject *name) {
    shorten_lookup(Py_TYPE(module));
    return item_or_error(module, name);
}

int ingot_add_attributes(PyObject *module) {
    static PyMethodDef method = {"__getattr__", get_item, METH_O, "The item of that name."};
    fallback = PyDescr_NewMethod(&PyDict_Type, &method);
    return fallback == NULL ? -1 : PyModule_AddObjectRef(module, "item_as_attribute", fallback);
}
