/* A cache of what ops do to inputs of a known layout, so that repeated nodes run without Python.
 *
 * A table from an op (by identity: functions that rebuild the same graph share their ops, see objects/call_memo.c) and the
 * shapes, strides and dtypes of its inputs to what was done for them the last time: the op's program, or the shape,
 * strides and offset of a view. */
#include "evaluate/dispatch.h"
#include "evaluate/whole_graph.h"
#include "numpy_api.h"

#define SET_COUNT 512 /* sets of two entries; the older goes. A model of 30 layers has about 30 kinds of ops and layouts */

typedef struct {
    uint64_t hash;
    int word_count;
    uint64_t words[MAX_LAYOUT_WORDS];
    PyObject *op;      /* keeps it alive, because its address is in the key */
    PyObject *program; /* NULL for views */
    int axes;
    npy_intp offset, lengths[NPY_MAXDIMS], strides[NPY_MAXDIMS];
} Entry;

static Entry *table[SET_COUNT][2];

bool dispatch_key(LayoutKey *key, PyObject *op, PyObject *const *values, Py_ssize_t count) {
    key->op = op;
    key->values = values;
    key->count = count;
    key->word_count = 0;
    key->words[key->word_count++] = (uint64_t)(uintptr_t)op;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!PyArray_CheckExact(values[i]))
            return false;
        PyArrayObject *array = as_ndarray(values[i]);
        int axes = PyArray_NDIM(array);
        if (key->word_count + 2 * axes + 2 > MAX_LAYOUT_WORDS || PyArray_SIZE(array) == 0)
            return false;
        /* by type number: the dtypes of this package have unique ones */
        key->words[key->word_count++] = (uint64_t)PyArray_TYPE(array);
        key->words[key->word_count++] = (uint64_t)axes;
        for (int axis = 0; axis < axes; axis++) {
            key->words[key->word_count++] = (uint64_t)PyArray_DIM(array, axis);
            key->words[key->word_count++] = (uint64_t)PyArray_STRIDE(array, axis);
        }
    }
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (int i = 0; i < key->word_count; i++) {
        hash = (hash ^ key->words[i]) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    key->hash = hash;
    return true;
}

static Entry *find(const LayoutKey *key) {
    Entry **set = table[key->hash % SET_COUNT];
    for (int way = 0; way < 2; way++) {
        Entry *entry = set[way];
        if (entry == NULL || entry->hash != key->hash || entry->word_count != key->word_count ||
            memcmp(entry->words, key->words, sizeof *key->words * (size_t)key->word_count) != 0)
            continue;
        set[way] = set[0]; /* the first is the most recently used */
        set[0] = entry;
        return entry;
    }
    return NULL;
}

static void release_entry(Entry *entry) {
    if (entry == NULL)
        return;
    Py_DECREF(entry->op);
    Py_XDECREF(entry->program);
    PyMem_Free(entry);
}

static Entry *add(const LayoutKey *key, PyObject *program) {
    Entry *entry = PyMem_Calloc(1, sizeof *entry);
    if (entry == NULL)
        return NULL; /* not cached then */
    entry->hash = key->hash;
    entry->word_count = key->word_count;
    memcpy(entry->words, key->words, sizeof *key->words * (size_t)key->word_count);
    entry->op = Py_NewRef(key->op);
    entry->program = Py_XNewRef(program);
    Entry **set = table[key->hash % SET_COUNT], *oldest = set[1];
    set[1] = set[0];
    set[0] = entry;
    release_entry(oldest);
    return entry;
}

PyObject *dispatch_program(const LayoutKey *key) {
    Entry *entry = find(key);
    return entry == NULL ? NULL : entry->program;
}

void dispatch_keep_program(const LayoutKey *key, PyObject *program) {
    add(key, program);
}

PyObject *dispatch_view(const LayoutKey *key) {
    Entry *entry = find(key);
    if (entry == NULL)
        return NULL;
    PyArrayObject *input = as_ndarray(key->values[0]);
    PyArray_Descr *descr = PyArray_DESCR(input);
    Py_INCREF(descr);
    int flags = PyArray_FLAGS(input) & NPY_ARRAY_WRITEABLE;
    PyObject *view = PyArray_NewFromDescr(&PyArray_Type, descr, entry->axes, entry->lengths, entry->strides,
                                          PyArray_BYTES(input) + entry->offset, flags, NULL);
    if (view != NULL && PyArray_SetBaseObject(as_ndarray(view), Py_NewRef(input)) < 0)
        Py_CLEAR(view);
    return view;
}

void dispatch_keep_view(const LayoutKey *key, PyObject *result) {
    if (!PyArray_CheckExact(result))
        return;
    PyArrayObject *view = as_ndarray(result), *input = as_ndarray(key->values[0]);
    PyObject *base = PyArray_BASE(view);
    if (base == NULL || (base != (PyObject *)input && base != PyArray_BASE(input)) || PyArray_TYPE(view) != PyArray_TYPE(input))
        return;
    Entry *entry = add(key, NULL);
    if (entry == NULL)
        return;
    entry->axes = PyArray_NDIM(view);
    entry->offset = PyArray_BYTES(view) - PyArray_BYTES(input);
    for (int axis = 0; axis < entry->axes; axis++) {
        entry->lengths[axis] = PyArray_DIM(view, axis);
        entry->strides[axis] = PyArray_STRIDE(view, axis);
    }
}

/* forget_programs(): called when settings change that programs depend on */
static PyObject *forget_programs(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    for (int set = 0; set < SET_COUNT; set++) {
        for (int way = 0; way < 2; way++) {
            Entry *entry = table[set][way];
            table[set][way] = NULL;
            release_entry(entry);
        }
    }
    forget_graphs();
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"forget_programs", forget_programs, METH_NOARGS, "Forgets which programs compute which ops and graphs."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_dispatch(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
