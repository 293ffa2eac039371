/* Trees: nested lists, tuples and dicts, flattened into their leaves and rebuilt with other leaves. */
#include "native.h"

static const char deep[] = " while reading a tree";

static int gather(PyObject *tree, PyObject *leaves);

static int gather_items(PyObject *sequence, PyObject *leaves) {
    PyObject *steady = ingot_steady_sequence(sequence);
    int status = steady == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; status == 0 && i < PySequence_Fast_GET_SIZE(steady); i++)
        status = gather(PySequence_Fast_GET_ITEM(steady, i), leaves);
    Py_XDECREF(steady);
    return status;
}

static int gather_values(PyObject *dict, PyObject *leaves) {
    PyObject *key, *value, *steady = ingot_steady_dict(dict);
    Py_ssize_t position = 0;
    int status = steady == NULL ? -1 : 0;
    while (status == 0 && PyDict_Next(steady, &position, &key, &value))
        status = gather(value, leaves);
    Py_XDECREF(steady);
    return status;
}

/* No Python code runs here, so with a GIL the tree cannot change during the traversal. */
static int gather(PyObject *tree, PyObject *leaves) {
    if (is_array(tree))
        return PyList_Append(leaves, tree);
    bool is_sequence = PyList_Check(tree) || PyTuple_Check(tree);
    if (!is_sequence && !PyDict_Check(tree))
        return PyList_Append(leaves, tree);
    if (Py_EnterRecursiveCall(deep) != 0)
        return -1;
    int status = is_sequence ? gather_items(tree, leaves) : gather_values(tree, leaves);
    Py_LeaveRecursiveCall();
    return status;
}

static void explain_recursion(void) {
    if (PyErr_ExceptionMatches(PyExc_RecursionError))
        PyErr_SetString(PyExc_ValueError, "[tree] the tree contains itself, or is nested deeper than Python can follow.");
}

/* leaves(tree) -> list: lists and tuples in order, dicts in insertion order */
static PyObject *leaves_of(PyObject *Py_UNUSED(module), PyObject *tree) {
    PyObject *leaves = PyList_New(0);
    if (leaves != NULL && gather(tree, leaves) < 0) {
        explain_recursion();
        Py_CLEAR(leaves);
    }
    return leaves;
}

typedef struct {
    PyObject *leaves; /* list */
    Py_ssize_t used;
    bool plain;       /* whether subclasses of list and dict are rebuilt as list and dict */
    PyObject *copies; /* list that collects (container, copy) pairs, or NULL */
} Replacement;

static PyObject *replaced(PyObject *tree, Replacement *with);

static PyObject *shallow_copy(PyObject *container) {
    static PyObject *copy;
    if (copy == NULL) {
        PyObject *module = PyImport_ImportModule("copy");
        copy = module == NULL ? NULL : PyObject_GetAttrString(module, "copy");
        Py_XDECREF(module);
        if (copy == NULL)
            return NULL;
    }
    return PyObject_CallOneArg(copy, container);
}

static PyObject *replaced_list(PyObject *list, Replacement *with) {
    PyObject *items = PyList_GetSlice(list, 0, PY_SSIZE_T_MAX);
    Py_ssize_t count = items == NULL ? 0 : PyList_GET_SIZE(items);
    for (Py_ssize_t i = 0; items != NULL && i < count; i++) {
        PyObject *item = replaced(PyList_GET_ITEM(items, i), with);
        if (item == NULL || PyList_SetItem(items, i, item) < 0)
            Py_CLEAR(items);
    }
    if (items == NULL || with->plain || PyList_CheckExact(list))
        return items;
    PyObject *copy = shallow_copy(list);
    if (copy != NULL && PyList_SetSlice(copy, 0, count, items) < 0)
        Py_CLEAR(copy);
    Py_DECREF(items);
    return copy;
}

static int copy_attributes(PyObject *from, PyObject *to) {
    PyObject *attributes = PyObject_GetAttrString(from, "__dict__");
    if (attributes == NULL) {
        bool none = PyErr_ExceptionMatches(PyExc_AttributeError);
        if (none)
            PyErr_Clear();
        return none ? 0 : -1;
    }
    PyObject *own = PyObject_GetAttrString(to, "__dict__");
    int status = own == NULL ? -1 : PyDict_Update(own, attributes);
    Py_XDECREF(own);
    Py_DECREF(attributes);
    return status;
}

/* Builds a tuple of the type of `model`, with its attributes. The type itself is not called, because its constructor
 * may have any signature (a named tuple's takes the items one by one). Types defined in C, like that of
 * time.gmtime(), do not support this. */
static PyObject *tuple_like(PyObject *model, PyObject *items) {
    PyObject *type = (PyObject *)Py_TYPE(model);
    PyObject *made = PyObject_CallMethod((PyObject *)&PyTuple_Type, "__new__", "OO", type, items);
    if (made == NULL && PyErr_ExceptionMatches(PyExc_TypeError)) {
        PyErr_Clear();
        return PyObject_CallOneArg(type, items);
    }
    if (made != NULL && copy_attributes(model, made) < 0)
        Py_CLEAR(made);
    return made;
}

/* tuple_like(model, items) -> tuple */
static PyObject *public_tuple_like(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !PyTuple_Check(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "tuple_like takes a tuple and a sequence.");
        return NULL;
    }
    PyObject *items = PySequence_Tuple(arguments[1]);
    if (items == NULL || PyTuple_CheckExact(arguments[0]))
        return items;
    PyObject *made = tuple_like(arguments[0], items);
    Py_DECREF(items);
    return made;
}

static PyObject *replaced_tuple(PyObject *tuple, Replacement *with) {
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    PyObject *items = PyTuple_New(count);
    for (Py_ssize_t i = 0; items != NULL && i < count; i++) {
        PyObject *item = replaced(PyTuple_GET_ITEM(tuple, i), with);
        if (item == NULL)
            Py_CLEAR(items);
        else
            PyTuple_SET_ITEM(items, i, item);
    }
    if (items == NULL || PyTuple_CheckExact(tuple))
        return items;
    PyObject *made = tuple_like(tuple, items);
    Py_DECREF(items);
    return made;
}

static PyObject *replaced_dict(PyObject *dict, Replacement *with) {
    bool is_plain = with->plain || PyDict_CheckExact(dict);
    PyObject *copy = is_plain ? PyDict_Copy(dict) : shallow_copy(dict);
    if (copy == NULL)
        return NULL;
    if (!PyDict_Check(copy)) {
        PyErr_Format(PyExc_TypeError, "[tree] a copy of %s is not a dict.", Py_TYPE(dict)->tp_name);
        Py_DECREF(copy);
        return NULL;
    }
    PyObject *key, *value; /* nobody else has the copy */
    Py_ssize_t position = 0;
    while (PyDict_Next(copy, &position, &key, &value)) {
        PyObject *item = replaced(value, with);
        /* The key exists already, so setting it is safe during iteration. */
        if (item == NULL || PyDict_SetItem(copy, key, item) < 0)
            Py_CLEAR(copy);
        Py_XDECREF(item);
        if (copy == NULL)
            return NULL;
    }
    return copy;
}

static int note_copy(PyObject *copies, PyObject *container, PyObject *copy) {
    PyObject *pair = PyTuple_Pack(2, container, copy);
    int status = pair == NULL ? -1 : PyList_Append(copies, pair);
    Py_XDECREF(pair);
    return status;
}

static PyObject *replaced(PyObject *tree, Replacement *with) {
    bool is_list = PyList_Check(tree), is_tuple = PyTuple_Check(tree);
    if (!is_list && !is_tuple && !PyDict_Check(tree)) {
        if (with->used >= PyList_GET_SIZE(with->leaves)) {
            PyErr_SetString(PyExc_ValueError, "[tree] the tree has more leaves than there are values for them.");
            return NULL;
        }
        return Py_NewRef(PyList_GET_ITEM(with->leaves, with->used++));
    }
    if (Py_EnterRecursiveCall(deep) != 0)
        return NULL;
    PyObject *result = is_list ? replaced_list(tree, with) : is_tuple ? replaced_tuple(tree, with) : replaced_dict(tree, with);
    Py_LeaveRecursiveCall();
    if (result != NULL && with->copies != NULL && note_copy(with->copies, tree, result) < 0)
        Py_CLEAR(result);
    return result;
}

/* replace_leaves(tree, leaves, plain, copies=None) -> tree of the same structure */
static PyObject *replace_leaves(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count < 3 || count > 4 || !PyList_Check(arguments[1]) || (count == 4 && !PyList_Check(arguments[3]))) {
        PyErr_SetString(PyExc_TypeError, "replace_leaves takes a tree, a list, a flag and perhaps a list for the copies.");
        return NULL;
    }
    Replacement with = {arguments[1], 0, arguments[2] == Py_True, count == 4 ? arguments[3] : NULL};
    PyObject *result = replaced(arguments[0], &with);
    if (result == NULL) {
        explain_recursion();
    } else if (with.used != PyList_GET_SIZE(with.leaves)) {
        PyErr_SetString(PyExc_ValueError, "[tree] the tree has fewer leaves than there are values for them.");
        Py_CLEAR(result);
    }
    return result;
}

static int same_trees(PyObject *one, PyObject *other);

/* Of steady sequences. */
static int same_items(PyObject *one, PyObject *other) {
    Py_ssize_t count = PySequence_Fast_GET_SIZE(one);
    int same = count == PySequence_Fast_GET_SIZE(other);
    for (Py_ssize_t i = 0; same == 1 && i < count; i++)
        same = same_trees(PySequence_Fast_GET_ITEM(one, i), PySequence_Fast_GET_ITEM(other, i));
    return same;
}

/* Of steady dicts. */
static int same_entries(PyObject *one, PyObject *other) {
    PyObject *key, *value, *other_key, *other_value;
    Py_ssize_t position = 0, other_position = 0;
    int same = PyDict_GET_SIZE(one) == PyDict_GET_SIZE(other);
    while (same == 1 && PyDict_Next(one, &position, &key, &value)) {
        same = PyDict_Next(other, &other_position, &other_key, &other_value) && key == other_key;
        if (same)
            same = same_trees(value, other_value);
    }
    return same;
}

/* 1, 0, or -1 on error. Runs no Python code. */
static int same_trees(PyObject *one, PyObject *other) {
    if (one == other)
        return 1;
    bool is_dict = PyDict_CheckExact(one);
    if (Py_TYPE(one) != Py_TYPE(other) || !(is_dict || PyList_CheckExact(one) || PyTuple_CheckExact(one)))
        return 0;
    if (Py_EnterRecursiveCall(deep) != 0)
        return -1;
    PyObject *first = is_dict ? ingot_steady_dict(one) : ingot_steady_sequence(one), *second = NULL;
    if (first != NULL)
        second = is_dict ? ingot_steady_dict(other) : ingot_steady_sequence(other);
    int same = -1;
    if (second != NULL)
        same = is_dict ? same_entries(first, second) : same_items(first, second);
    Py_XDECREF(first);
    Py_XDECREF(second);
    Py_LeaveRecursiveCall();
    return same;
}

/* same_tree(one, other) -> bool: whether two trees of dicts, lists and tuples, not of their subclasses, hold the same
 * objects under the same keys, which are compared by identity, too */
static PyObject *same_tree(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2) {
        PyErr_Format(PyExc_TypeError, "same_tree compares two trees, got %zd.", count);
        return NULL;
    }
    int same = same_trees(arguments[0], arguments[1]);
    return same < 0 ? NULL : PyBool_FromLong(same);
}

LOCKS_METHOD(leaves_of)
LOCKS_FAST_METHOD(replace_leaves)
LOCKS_FAST_METHOD(same_tree)
LOCKS_FAST_METHOD(public_tuple_like)

static PyMethodDef functions[] = {
    {"leaves", LOCKED(leaves_of), METH_O, "leaves(tree) -> list: in order"},
    {"replace_leaves", (PyCFunction)(void (*)(void))LOCKED(replace_leaves), METH_FASTCALL,
     "replace_leaves(tree, leaves, plain, copies=None) -> tree of the same structure; plain: of list and dict, not their "
     "subclasses; copies: a list that gets pairs of containers and their copies, inner ones first"},
    {"same_tree", (PyCFunction)(void (*)(void))LOCKED(same_tree), METH_FASTCALL,
     "same_tree(one, other) -> whether plain containers hold the same objects"},
    {"tuple_like", (PyCFunction)(void (*)(void))LOCKED(public_tuple_like), METH_FASTCALL,
     "tuple_like(model, items) -> tuple of the model's type and with its attributes"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_tree(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
