/* A cache of what ops do to inputs of a known layout, so that repeated nodes run without Python.
 *
 * A table from an op (by identity: functions that rebuild the same graph share their ops, see objects/call_memo.c) and the
 * shapes, strides and dtypes of its inputs to what was done for them the last time: the op's program, or the shape,
 * strides and offset of a view. */
#include "evaluate/dispatch.h"
#include "evaluate/whole_graph.h"
#include "numpy_api.h"
#include "programs/kept_panels.h"
#include "tuning.h"

#define SET_COUNT 512 /* a model of 30 layers has about 30 combinations of ops and layouts */
#define COUNTER_SETS 256
#define COUNTER_WAYS 4 /* with one, two ops of a loop whose hashes share a counter would reset each other's forever */

typedef struct {
    WordKey key;
    uint64_t words[MAX_LAYOUT_WORDS];
    PyObject *op;      /* keeps it alive, because its address is in the key */
    PyObject *program; /* NULL for views */
    int axes;
    npy_intp offset, lengths[NPY_MAXDIMS], strides[NPY_MAXDIMS];
} Entry;

static CacheSet sets[SET_COUNT];

/* Work that `evaluate` rules have done, by the hash of an op and layout. */
typedef struct {
    uint64_t hash;
    int64_t work;
} WorkCounter;

static WorkCounter counters[COUNTER_SETS][COUNTER_WAYS];

bool dispatch_key(LayoutKey *key, PyObject *op, PyObject *const *values, Py_ssize_t count) {
    key->op = op;
    key->values = values;
    key->count = count;
    int word_count = 0;
    key->words[word_count++] = (uint64_t)(uintptr_t)op;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!PyArray_CheckExact(values[i]))
            return false;
        PyArrayObject *array = as_ndarray(values[i]);
        int axes = PyArray_NDIM(array);
        if (word_count + 2 * axes + 2 > MAX_LAYOUT_WORDS || PyArray_SIZE(array) == 0)
            return false;
        /* by type number: the dtypes of this package have unique ones */
        key->words[word_count++] = (uint64_t)PyArray_TYPE(array);
        key->words[word_count++] = (uint64_t)axes;
        for (int axis = 0; axis < axes; axis++) {
            key->words[word_count++] = (uint64_t)PyArray_DIM(array, axis);
            key->words[word_count++] = (uint64_t)PyArray_STRIDE(array, axis);
        }
    }
    key->key = (WordKey){.words = key->words, .count = (size_t)word_count};
    key->key.hash = hash_words(key->words, key->key.count);
    return true;
}

static Entry *find(const LayoutKey *key) {
    return (Entry *)cache_find(sets, SET_COUNT, &key->key, NULL, NULL);
}

static void release_entry(WordKey *released) {
    Entry *entry = (Entry *)released;
    Py_DECREF(entry->op);
    Py_XDECREF(entry->program);
    PyMem_Free(entry);
}

static Entry *add(const LayoutKey *key, PyObject *program) {
    Entry *entry = PyMem_Calloc(1, sizeof *entry);
    if (entry == NULL)
        return NULL; /* not cached then */
    entry->key = key->key;
    entry->key.words = memcpy(entry->words, key->words, key->key.count * sizeof *key->words);
    entry->op = Py_NewRef(key->op);
    entry->program = Py_XNewRef(program);
    WordKey *evicted = cache_add(sets, SET_COUNT, &entry->key);
    if (evicted != NULL)
        release_entry(evicted);
    return entry;
}

PyObject *dispatch_program(const LayoutKey *key) {
    Entry *entry = find(key);
    return entry == NULL ? NULL : entry->program;
}

void dispatch_keep_program(const LayoutKey *key, PyObject *program) {
    add(key, program);
}

/* The counter of a hash. A new one takes over one of its set: of an op that has its program by now, or else that with the
 * least work. */
static WorkCounter *counter_of(uint64_t hash) {
    WorkCounter *set = counters[hash % COUNTER_SETS], *victim = set;
    for (WorkCounter *counter = set; counter < set + COUNTER_WAYS; counter++) {
        if (counter->hash == hash)
            return counter;
        if (victim->work < MIN_RECURRING_ELEMENTS && (counter->work >= MIN_RECURRING_ELEMENTS || counter->work < victim->work))
            victim = counter;
    }
    *victim = (WorkCounter){.hash = hash};
    return victim;
}

bool dispatch_recurs(const LayoutKey *key) {
    int64_t work = RECURRING_CALL_ELEMENTS;
    for (Py_ssize_t i = 0; i < key->count; i++)
        work += PyArray_SIZE(as_ndarray(key->values[i]));
    WorkCounter *counter = counter_of(key->key.hash);
    bool recurs = counter->work >= MIN_RECURRING_ELEMENTS;
    counter->work += work;
    return recurs;
}

PyObject *dispatch_view(const LayoutKey *key) {
    ingot_end_loan(key->values[0]);
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
    cache_clear(sets, SET_COUNT, release_entry);
    memset(counters, 0, sizeof counters);
    forget_graphs();
    Py_RETURN_NONE;
}

LOCKS_METHOD(forget_programs)

static PyMethodDef functions[] = {
    {"forget_programs", LOCKED(forget_programs), METH_NOARGS, "Empties the caches of programs for ops and for whole graphs."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_dispatch(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
