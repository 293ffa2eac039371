/* Python access to the table of callbacks.h: `set_callbacks`, and the names for the test of the types. */
#include "native.h"
#include <stddef.h>

Callbacks callbacks;
AttributeNames attribute_names;

#define REQUIRED_ROW(name) {#name, offsetof(Callbacks, name), true},
#define OPTIONAL_ROW(name) {#name, offsetof(Callbacks, name), false},

static const struct {
    const char *name;
    size_t offset;
    bool is_required;
} table[] = {INGOT_CALLBACKS(REQUIRED_ROW) INGOT_OPTIONAL_CALLBACKS(OPTIONAL_ROW)};

enum { CALLBACK_COUNT = sizeof table / sizeof *table };

PyObject *ingot_missing_callback(const char *name) {
    PyErr_Format(PyExc_RuntimeError, "ingot._native was used before ingot.core was imported (no %s).", name);
    return NULL;
}

/* The index of the row; -1 with TypeError if there is none. */
static int find_row(PyObject *name) {
    for (int i = 0; i < CALLBACK_COUNT; i++) {
        if (PyUnicode_CompareWithASCIIString(name, table[i].name) == 0)
            return i;
    }
    PyErr_Format(PyExc_TypeError, "[set_callbacks] there is no callback named %U; graph/callbacks.py lists them.", name);
    return -1;
}

static int set_callback(PyObject *name, PyObject *value) {
    int row = find_row(name);
    if (row < 0)
        return -1;
    if (value == Py_None && table[row].is_required) {
        PyErr_Format(PyExc_TypeError, "[set_callbacks] %U cannot be taken away.", name);
        return -1;
    }
    PyObject **slot = (PyObject **)((char *)&callbacks + table[row].offset);
    PyObject *before;
    ENGINE_BEGIN
    before = *slot;
    *slot = value == Py_None ? NULL : Py_NewRef(value);
    ENGINE_END
    Py_XDECREF(before);
    return 0;
}

/* set_callbacks(**callbacks); None clears an optional one */
static PyObject *set_callbacks(PyObject *Py_UNUSED(module), PyObject *arguments, PyObject *keywords) {
    if (PyTuple_GET_SIZE(arguments) > 0) {
        PyErr_SetString(PyExc_TypeError, "[set_callbacks] takes keyword arguments only.");
        return NULL;
    }
    PyObject *name, *value;
    Py_ssize_t position = 0;
    while (keywords != NULL && PyDict_Next(keywords, &position, &name, &value)) {
        if (set_callback(name, value) < 0)
            return NULL;
    }
    Py_RETURN_NONE;
}

/* callback_table() -> {name: (required, set)} */
static PyObject *callback_table(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    PyObject *found = PyDict_New();
    for (int i = 0; found != NULL && i < CALLBACK_COUNT; i++) {
        bool is_set = *(PyObject **)((char *)&callbacks + table[i].offset) != NULL;
        PyObject *row = Py_BuildValue("OO", table[i].is_required ? Py_True : Py_False, is_set ? Py_True : Py_False);
        if (row == NULL || PyDict_SetItemString(found, table[i].name, row) < 0)
            Py_CLEAR(found);
        Py_XDECREF(row);
    }
    return found;
}

/* attribute_table() -> list of (class, attribute) */
static PyObject *attribute_table(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
#define ROW(owner, name) #owner, #name,
    static const char *const rows[] = {INGOT_ATTRIBUTES(ROW)};
#undef ROW
    PyObject *found = PyList_New(0);
    for (size_t i = 0; found != NULL && i < sizeof rows / sizeof *rows; i += 2) {
        PyObject *row = Py_BuildValue("ss", rows[i], rows[i + 1]);
        if (row == NULL || PyList_Append(found, row) < 0)
            Py_CLEAR(found);
        Py_XDECREF(row);
    }
    return found;
}

LOCKS_METHOD(callback_table)
LOCKS_METHOD(attribute_table)

static PyMethodDef functions[] = {
    {"set_callbacks", (PyCFunction)(void (*)(void))set_callbacks, METH_VARARGS | METH_KEYWORDS,
     "set_callbacks(**callbacks): what C calls in Python; None takes an optional one away"},
    {"callback_table", LOCKED(callback_table), METH_NOARGS,
     "callback_table() -> {name: (whether it is required, whether it is set)}"},
    {"attribute_table", LOCKED(attribute_table), METH_NOARGS,
     "attribute_table() -> the classes and attributes that C reads by name"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_callbacks(PyObject *module) {
#define INTERN(owner, name)                                                 \
    if ((attribute_names.name = PyUnicode_InternFromString(#name)) == NULL) \
        return -1;
    INGOT_ATTRIBUTES(INTERN)
#undef INTERN
    return PyModule_AddFunctions(module, functions);
}
