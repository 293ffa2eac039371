/* A cache of the graphs that public functions build, which replays a call without running Python.
 *
 * Most functions of arrays build the same nodes whenever they are called with arrays of the same shapes and dtypes
 * and with equal other arguments. For those that declare it (`by_shapes` in graph/boundary/checks.py), the nodes between
 * the arguments and the result of a call are kept as a list of steps, and the next call with an equal key builds its
 * nodes from that list. A program that builds the same graph over and over, such as a decoding language model, then
 * spends its time in its own Python code.
 *
 * The key is a list of words: tags, lengths, and the addresses of dtypes, interned strings and singletons, which the
 * entry keeps alive. Calls with any other kind of argument, and calls under a transform or a trace, are not looked
 * up. */
#include "call_memo.h"
#include "numpy_api.h"

#define MAX_STEPS 16
#define MAX_STEP_INPUTS 8
#define MAX_CONSTANT_ELEMENTS 16
#define SET_COUNT 1024 /* a model of 30 layers makes about 40 keys per token */

enum { TAG_ARRAY = 1, TAG_INT, TAG_FLOAT, TAG_OBJECT, TAG_TUPLE, TAG_LIST, TAG_SLICE, TAG_KEYWORD, TAG_SELF };

/* One node to build. A negative input is an argument (-1 is the first); others are the indices of earlier steps. */
typedef struct {
    PyObject *op; /* NULL: a constant, which all calls share */
    Node *constant;
    PyObject *shape, *dtype;
    int inputs[MAX_STEP_INPUTS];
    int input_count;
} Step;

typedef struct MemoEntry {
    WordKey key;
    int references;
    int step_count, result; /* result: numbered like an input */
    bool is_argument;       /* the result is the very object that was passed in */
    uint64_t words[MAX_KEY_WORDS];
    PyObject *kept[MAX_KEY_WORDS]; /* the objects whose addresses are in `words` */
    int kept_count;
    Step steps[MAX_STEPS];
} MemoEntry;

static CacheSet sets[SET_COUNT];

static void release_entry(MemoEntry *entry) {
    if (entry == NULL || --entry->references > 0)
        return;
    for (int i = 0; i < entry->step_count; i++) {
        Py_XDECREF(entry->steps[i].op);
        Py_XDECREF(entry->steps[i].constant);
        Py_XDECREF(entry->steps[i].shape);
        Py_XDECREF(entry->steps[i].dtype);
    }
    for (int i = 0; i < entry->kept_count; i++)
        Py_DECREF(entry->kept[i]);
    PyMem_Free(entry);
}

/* ---- keys ---- */

static bool push(MemoKey *key, uint64_t word) {
    if (key->key.count == MAX_KEY_WORDS)
        return false;
    key->words[key->key.count++] = word;
    return true;
}

/* Adds a word that is an address: an entry made from the key keeps the object alive. */
static bool push_object(MemoKey *key, uint64_t tag, PyObject *object) {
    if (!push(key, tag) || !push(key, (uint64_t)(uintptr_t)object))
        return false;
    key->kept[key->kept_count++] = object;
    return true;
}

static bool push_array(MemoKey *key, PyObject *object) {
    Node *node = ((Array *)object)->node;
    if (node->tracer || key->array_count == MAX_KEY_ARRAYS || !Py_IS_TYPE(node->dtype, Dtype_Type))
        return false;
    int same = 0;
    while (same < key->array_count && key->nodes[same] != node)
        same++;
    Py_ssize_t axes = PyTuple_GET_SIZE(node->shape);
    key->objects[key->array_count] = object;
    key->nodes[key->array_count++] = (Node *)Py_NewRef(node);
    /* The key includes which earlier argument has the same node, because steps refer to arguments by position. */
    if (!push(key, TAG_ARRAY) || !push(key, (uint64_t)same) || !push(key, (uint64_t)(uintptr_t)node->dtype) ||
        !push(key, (uint64_t)axes))
        return false;
    for (Py_ssize_t axis = 0; axis < axes; axis++) {
        PyObject *length = PyTuple_GET_ITEM(node->shape, axis);
        if (!PyLong_CheckExact(length) || !push(key, (uint64_t)PyLong_AsLongLong(length)))
            return false;
    }
    return true;
}

static bool push_value(MemoKey *key, PyObject *value, int depth);

static bool push_items(MemoKey *key, uint64_t tag, PyObject **items, Py_ssize_t count, int depth) {
    if (!push(key, tag) || !push(key, (uint64_t)count))
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        if ((tag != TAG_TUPLE && is_array(items[i])) || !push_value(key, items[i], depth + 1))
            return false; /* for arrays in lists and slices, the function may read the values */
    }
    return true;
}

/* Other threads may change a list and with it free strings, so those are not pushed meanwhile. */
static bool push_list(MemoKey *key, PyObject *list, int depth) {
    PyObject *steady = ingot_steady_sequence(list);
    if (steady == NULL) {
        PyErr_Clear(); /* out of memory: not looked up */
        return false;
    }
    key->open_lists++;
    bool pushed = push_items(key, TAG_LIST, ((PyListObject *)steady)->ob_item, PyList_GET_SIZE(steady), depth);
    key->open_lists--;
    Py_DECREF(steady);
    return pushed;
}

static bool push_number(MemoKey *key, PyObject *value) {
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        uint64_t bits;
        memcpy(&bits, &number, sizeof bits);
        return push(key, TAG_FLOAT) && push(key, bits);
    }
    int overflow;
    long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow && push(key, TAG_INT) && push(key, (uint64_t)number);
}

static bool push_value(MemoKey *key, PyObject *value, int depth) {
    if (Py_IS_TYPE(value, Array_Type))
        return push_array(key, value);
    if (value == Py_None || value == Py_True || value == Py_False || value == Py_Ellipsis || Py_IS_TYPE(value, Dtype_Type) ||
        (PyUnicode_CheckExact(value) && PyUnicode_CHECK_INTERNED(value) && key->open_lists == 0))
        return push_object(key, TAG_OBJECT, value);
    if (PyLong_CheckExact(value) || PyFloat_CheckExact(value))
        return push_number(key, value);
    if (depth > 2)
        return false;
    if (PyTuple_CheckExact(value))
        return push_items(key, TAG_TUPLE, ((PyTupleObject *)value)->ob_item, PyTuple_GET_SIZE(value), depth);
    if (PyList_CheckExact(value))
        return push_list(key, value, depth);
    if (PySlice_Check(value)) {
        PySliceObject *slice = (PySliceObject *)value;
        return push_items(key, TAG_SLICE, (PyObject *[]){slice->start, slice->stop, slice->step}, 3, depth);
    }
    return false;
}

bool memo_key(MemoKey *key, PyObject *function, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords) {
    key->key = (WordKey){.words = key->words};
    key->kept_count = key->array_count = key->open_lists = 0;
    if (ingot_is_tracing() || recording_sources() || ingot_line_of() != NULL || !push_object(key, TAG_SELF, function))
        return false;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!push_value(key, arguments[i], 0))
            return false;
    }
    Py_ssize_t named = keywords == NULL ? 0 : PyTuple_GET_SIZE(keywords);
    for (Py_ssize_t i = 0; i < named; i++) {
        PyObject *name = PyTuple_GET_ITEM(keywords, i);
        if (!PyUnicode_CHECK_INTERNED(name) || !push_object(key, TAG_KEYWORD, name) ||
            !push_value(key, arguments[count + i], 0))
            return false;
    }
    key->key.hash = hash_words(key->words, key->key.count);
    return key->array_count > 0;
}

void memo_key_release(MemoKey *key) {
    while (key->array_count > 0)
        Py_DECREF(key->nodes[--key->array_count]);
}

/* ---- replaying known calls ---- */

static Node *make_step(const Step *step, const MemoKey *key, Node **made) {
    if (step->op == NULL)
        return (Node *)Py_NewRef(step->constant);
    PyObject *inputs = PyTuple_New(step->input_count);
    if (inputs == NULL)
        return NULL;
    for (int i = 0; i < step->input_count; i++) {
        int number = step->inputs[i];
        PyTuple_SET_ITEM(inputs, i, Py_NewRef(number < 0 ? key->nodes[-1 - number] : made[number]));
    }
    Node *node = node_new(step->op, inputs, step->shape, step->dtype, resolve_stream(NULL));
    Py_DECREF(inputs);
    return node;
}

static Node *make_again(const MemoEntry *entry, const MemoKey *key) {
    Node *made[MAX_STEPS], *result = NULL;
    int count = 0;
    while (count < entry->step_count && (made[count] = make_step(&entry->steps[count], key, made)) != NULL)
        count++;
    if (count == entry->step_count)
        result = (Node *)Py_NewRef(entry->result < 0 ? key->nodes[-1 - entry->result] : made[entry->result]);
    while (count > 0)
        Py_DECREF(made[--count]);
    return result;
}

int memo_find(const MemoKey *key, PyObject **argument, Node **result) {
    MemoEntry *entry = (MemoEntry *)cache_find(sets, SET_COUNT, &key->key, NULL, NULL);
    if (entry == NULL)
        return 0;
    entry->references++; /* building nodes may run the garbage collector and with it code that changes the cache */
    *argument = entry->is_argument ? key->objects[-1 - entry->result] : NULL;
    *result = make_again(entry, key);
    release_entry(entry);
    return *result == NULL ? -1 : 1;
}

/* ---- recording calls ---- */

typedef struct {
    Node *nodes[MAX_STEPS]; /* built by the steps so far */
} Known;

/* The number by which inputs refer to the node; INT32_MAX if it is not known yet. */
static int number_of(const Node *node, const MemoKey *key, const MemoEntry *entry, const Known *known) {
    for (int i = 0; i < key->array_count; i++) {
        if (key->nodes[i] == node)
            return -1 - i;
    }
    for (int i = 0; i < entry->step_count; i++) {
        if (known->nodes[i] == node)
            return i;
    }
    return INT32_MAX;
}

static bool is_small_constant(const Node *node) {
    return node->op == NULL && node->data != NULL && is_ndarray(node->data) &&
           PyArray_SIZE(as_ndarray(node->data)) <= MAX_CONSTANT_ELEMENTS;
}

/* Adds the step of a node after those of its inputs. The depth of the recursion is bounded by MAX_STEPS. */
static bool add_steps(Node *node, const MemoKey *key, MemoEntry *entry, Known *known, int depth) {
    if (number_of(node, key, entry, known) != INT32_MAX)
        return true;
    Step step = {0};
    if (node->op != NULL) {
        Py_ssize_t count = PyTuple_GET_SIZE(node->inputs);
        if (depth == MAX_STEPS || count > MAX_STEP_INPUTS || node->pending != NULL || node->data != NULL)
            return false;
        for (Py_ssize_t i = 0; i < count; i++) {
            Node *input = (Node *)PyTuple_GET_ITEM(node->inputs, i);
            if (!add_steps(input, key, entry, known, depth + 1))
                return false;
            step.inputs[i] = number_of(input, key, entry, known);
        }
        step.input_count = (int)count;
    } else if (!is_small_constant(node)) {
        return false;
    }
    if (entry->step_count == MAX_STEPS)
        return false;
    step.op = Py_XNewRef(node->op);
    step.constant = node->op == NULL ? (Node *)Py_NewRef(node) : NULL;
    step.shape = Py_NewRef(node->shape);
    step.dtype = Py_NewRef(node->dtype);
    known->nodes[entry->step_count] = node;
    entry->steps[entry->step_count++] = step;
    return true;
}

void memo_keep(const MemoKey *key, Node *result, PyObject *object) {
    MemoEntry *entry = PyMem_Calloc(1, sizeof *entry);
    if (entry == NULL)
        return;
    entry->references = 1;
    Known known;
    if (result->stream != resolve_stream(NULL) || !add_steps(result, key, entry, &known, 0)) {
        release_entry(entry);
        return;
    }
    entry->result = number_of(result, key, entry, &known);
    for (int i = 0; i < key->array_count && entry->result < 0; i++) {
        if (key->objects[i] == object) {
            entry->is_argument = true;
            entry->result = -1 - i;
        }
    }
    entry->key = key->key;
    entry->key.words = memcpy(entry->words, key->words, key->key.count * sizeof *key->words);
    for (; entry->kept_count < key->kept_count; entry->kept_count++)
        entry->kept[entry->kept_count] = Py_NewRef(key->kept[entry->kept_count]);
    release_entry((MemoEntry *)cache_add(sets, SET_COUNT, &entry->key));
}
