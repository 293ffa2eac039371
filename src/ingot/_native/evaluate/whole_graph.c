/* Evaluates uncompiled graphs as one program. The compiler, in Python, makes the program once; equal graphs find it here.
 *
 * The key of a graph consists of its ops and edges, the nodes that are live-out, and the shapes, strides and dtypes of its
 * leaves; everything else follows from these. On a miss, the graph is offered to Python (compiler/call/eager.py). Small
 * graphs are offered only once they have recurred often enough, because compiling takes longer than a few runs save. */
#include "evaluate/whole_graph.h"
#include "objects/two_way_cache.h"
#include "numpy_api.h"
#include "tuning.h"
#include <math.h>

#define SET_COUNT 256     /* of programs */
#define COUNTER_COUNT 512 /* of small graphs that have no program */

typedef struct {
    WordKey key;   /* the entry owns its words */
    PyObject *ops; /* a tuple */
    PyObject *program;
    PyObject *counter; /* the UseCounter of its runs */
} Entry;

static CacheSet sets[SET_COUNT];
/* How often each small graph was seen, by the hash of its key. */
static struct {
    uint64_t hash;
    double seen; /* in runs of a graph on few elements */
} counters[COUNTER_COUNT];
static long long run_count;                     /* cache hits that ran */
static _Thread_local const NodeList *evaluated; /* the graph that this thread evaluates as a whole */

/* ---- the policy: the first half of what compiler/call/fusion_policy.py states ---- */

/* The number of elements of a node's result, as a double because it may exceed 64 bits; -1 for several results. */
static double count_elements(Node *node) {
    if (!Py_IS_TYPE(node->dtype, Dtype_Type))
        return -1;
    double elements = 1;
    for (Py_ssize_t axis = 0; axis < PyTuple_GET_SIZE(node->shape); axis++)
        elements *= PyLong_AsDouble(PyTuple_GET_ITEM(node->shape, axis));
    return elements;
}

/* Views cost nothing, however large they are. */
static bool is_view(Node *node) {
    return PyObject_TypeCheck(node->op, (PyTypeObject *)callbacks.view_type);
}

static bool is_of(PyObject *op, PyObject *type) {
    return type != NULL && PyObject_TypeCheck(op, (PyTypeObject *)type);
}

static bool communicates(PyObject *op) {
    return is_of(op, callbacks.ordered_type);
}

typedef struct {
    int others;   /* nodes other than compiled functions, which are programs already, and communication */
    int computed; /* those that are no views */
    int fused, programs;
    double elements, large_elements; /* of results; of those that are large enough for rule 2 */
    bool has_large;
} Totals;

typedef struct {
    enum { DECLINED, SMALL, LARGE } size;
    double weight; /* of a run: what it gains as a program, relative to a graph on few elements */
} Offer;

/* Adds a node to the totals of a graph. Returns -1 for one that rules out a program. */
static int add_node(Node *node, bool computes_pending, bool tracing, Totals *totals) {
    if (node->op == NULL || (node->pending != NULL && !computes_pending) || (node->tracer && tracing))
        return -1;
    totals->fused += is_of(node->op, callbacks.map_type) || is_of(node->op, callbacks.reduce_type);
    totals->programs += is_of(node->op, callbacks.alone_type);
    if (Py_IS_TYPE(node->op, (PyTypeObject *)callbacks.compiled_type) ||
        Py_IS_TYPE(node->op, (PyTypeObject *)callbacks.output_type) || communicates(node->op))
        return 0;
    totals->others++;
    double elements = count_elements(node);
    if (PyErr_Occurred()) {
        PyErr_Clear();
        return -1; /* evaluating the op raises the proper error */
    }
    if (is_view(node))
        return 0;
    totals->computed++;
    totals->elements += elements > 0 ? elements : 0;
    if (elements >= MIN_FUSED_NODE_ELEMENTS)
        totals->large_elements += elements;
    totals->has_large |= elements >= MIN_FUSED_ELEMENTS;
    return 0;
}

static Offer offer_of_graph(const NodeList *order, bool computes_pending, bool tracing) {
    Offer offer = {DECLINED, 1};
    if (callbacks.fuse == NULL || callbacks.run_checked != NULL || order->count < 2 || order->count > MAX_FUSED_NODES)
        return offer;
    Totals totals = {0};
    for (Py_ssize_t i = 0; i < order->count; i++) {
        if (add_node(order->items[i], computes_pending, tracing, &totals) < 0)
            return offer;
    }
    if (totals.others < 2 || totals.fused < 2 || totals.fused < totals.programs)
        return offer;
    bool is_large = totals.has_large && totals.large_elements >= (double)totals.computed * MIN_FUSED_NODE_ELEMENTS;
    offer.size = is_large ? LARGE : SMALL;
    offer.weight = 1 + floor(totals.elements / (fmax(totals.computed, 1) * ELEMENTS_PER_CALL));
    return offer;
}

/* ---- keys ---- */

typedef struct {
    WordKey key;
    size_t capacity; /* of its words */
    Node **leaves;   /* borrowed: inputs that are not in the graph */
    Py_ssize_t leaf_count;
    Py_ssize_t *references; /* to each node from within: by the order and by other nodes; -1 for outputs */
    Py_ssize_t *live_out;   /* positions */
    Py_ssize_t live_count;
    bool has_program_key; /* whether its program can be cached here */
} Key;

static void release_key(Key *key) {
    PyMem_Free(key->key.words);
    PyMem_Free(key->leaves);
    PyMem_Free(key->references);
    PyMem_Free(key->live_out);
}

/* The total number of inputs of the nodes; -1 if a node has none any more because another thread has evaluated it. */
static Py_ssize_t count_inputs(const NodeList *order) {
    Py_ssize_t count = 0;
    for (Py_ssize_t i = 0; i < order->count; i++) {
        if (order->items[i]->inputs == NULL)
            return -1;
        count += PyTuple_GET_SIZE(order->items[i]->inputs);
    }
    return count;
}

/* Adds the layout of a leaf; false if its value is not an ndarray. */
static bool add_layout(Key *key, Node *leaf) {
    if (leaf->data == NULL || !PyArray_CheckExact(leaf->data) || !Py_IS_TYPE(leaf->dtype, Dtype_Type))
        return false;
    PyArrayObject *array = as_ndarray(leaf->data);
    int axes = PyArray_NDIM(array);
    if (key->key.count + 2 * (size_t)axes + 2 > key->capacity) {
        size_t capacity = 2 * key->capacity + 2 * (size_t)axes + 2;
        uint64_t *words = PyMem_Realloc(key->key.words, capacity * sizeof *words);
        if (words == NULL)
            return false;
        key->key.words = words;
        key->capacity = capacity;
    }
    key->key.words[key->key.count++] = (uint64_t)(uintptr_t)leaf->dtype;
    key->key.words[key->key.count++] = (uint64_t)axes;
    for (int axis = 0; axis < axes; axis++) {
        key->key.words[key->key.count++] = (uint64_t)PyArray_DIM(array, axis);
        key->key.words[key->key.count++] = (uint64_t)PyArray_STRIDE(array, axis);
    }
    return true;
}

/* Finds the leaves and counts the references to each node that the order and its nodes hold. */
static void add_nodes(Key *key, const NodeList *order, Py_ssize_t input_count) {
    uint64_t base = next_mark(); /* marks become positions in the order, and then numbers of leaves */
    advance_marks((uint64_t)(order->count + input_count));
    for (Py_ssize_t i = 0; i < order->count; i++) {
        order->items[i]->mark = base + (uint64_t)i;
        key->references[i] = 1; /* the order's own */
    }
    for (Py_ssize_t i = 0; i < order->count; i++) {
        Node *node = order->items[i];
        key->key.words[key->key.count++] = (uint64_t)(uintptr_t)Py_TYPE(node->op);
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(node->inputs); k++) {
            Node *input = (Node *)PyTuple_GET_ITEM(node->inputs, k);
            uint64_t number = input->mark - base;
            if (number >= (uint64_t)(order->count + key->leaf_count)) {
                number = (uint64_t)(order->count + key->leaf_count);
                input->mark = base + number;
                key->leaves[key->leaf_count++] = input;
            } else if (number < (uint64_t)order->count) {
                key->references[number]++;
            }
            key->key.words[key->key.count++] = number;
        }
    }
}

/* Finds the live-out nodes: outputs, and nodes that are referenced from outside the graph. False if such a node has several
 * outputs, because its value must then be kept for outputs that are not part of the graph. */
static bool add_live_out(Key *key, const NodeList *order, Node **outputs, Py_ssize_t count) {
    uint64_t base = order->items[0]->mark;
    for (Py_ssize_t i = 0; i < count; i++) {
        uint64_t position = outputs[i]->mark - base;
        if (position < (uint64_t)order->count && outputs[i] == order->items[position])
            key->references[position] = -1;
    }
    for (Py_ssize_t i = 0; i < order->count; i++) {
        if (Py_REFCNT(order->items[i]) <= key->references[i])
            continue;
        if (!Py_IS_TYPE(order->items[i]->dtype, Dtype_Type))
            return false;
        key->live_out[key->live_count++] = i;
        key->key.words[key->key.count++] = (uint64_t)i;
    }
    return true;
}

/* 1; 0 for a graph that cannot be evaluated as a whole; -1 on error. Runs no Python code, not even the garbage collector, so
 * that no other thread can evaluate one of the nodes meanwhile. */
static int make_key(Key *key, const NodeList *order, Node **outputs, Py_ssize_t count) {
    Py_ssize_t input_count = count_inputs(order);
    if (input_count < 0)
        return 0;
    size_t nodes = (size_t)order->count, inputs = (size_t)input_count;
    key->capacity = 2 * nodes + inputs + 2 + 6 * (inputs + 1);
    key->key.words = PyMem_Malloc(key->capacity * sizeof *key->key.words);
    key->leaves = PyMem_Malloc((inputs + 1) * sizeof *key->leaves);
    key->references = PyMem_Malloc(nodes * sizeof *key->references);
    key->live_out = PyMem_Malloc(nodes * sizeof *key->live_out);
    if (key->key.words == NULL || key->leaves == NULL || key->references == NULL || key->live_out == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    key->key.words[key->key.count++] = (uint64_t)order->count;
    add_nodes(key, order, input_count);
    if (!add_live_out(key, order, outputs, count))
        return 0;
    key->key.words[key->key.count++] = UINT64_MAX; /* ends the positions */
    key->has_program_key = true;
    for (Py_ssize_t i = 0; i < key->leaf_count && key->has_program_key; i++)
        key->has_program_key = add_layout(key, key->leaves[i]);
    key->key.hash = hash_words(key->key.words, key->key.count);
    return 1;
}

/* ---- programs ---- */

/* Whether nodes have the ops of an entry. Functions that rebuild a graph mostly share their ops (objects/call_memo.c);
 * others are compared in Python, which may let other threads evaluate the nodes. */
static bool has_ops(const WordKey *entry, const void *context) {
    const NodeList *order = context;
    PyObject *ops = Py_NewRef(((const Entry *)entry)->ops);
    bool same = true;
    for (Py_ssize_t i = 0; same && i < order->count; i++) {
        PyObject *op = order->items[i]->op, *other = PyTuple_GET_ITEM(ops, i);
        if (op == other)
            continue;
        if (op == NULL) {
            same = false;
            continue;
        }
        Py_INCREF(op);
        same = PyObject_RichCompareBool(op, other, Py_EQ) == 1;
        Py_DECREF(op);
    }
    PyErr_Clear(); /* a comparison that fails counts as unequal */
    Py_DECREF(ops);
    return same && count_inputs(order) >= 0;
}

static Entry *find(const Key *key, const NodeList *order) {
    return (Entry *)cache_find(sets, SET_COUNT, &key->key, has_ops, order);
}

static void release_entry(WordKey *released) {
    Entry *entry = (Entry *)released;
    Py_XDECREF(entry->ops);
    Py_XDECREF(entry->program);
    Py_XDECREF(entry->counter);
    PyMem_Free(entry->key.words);
    PyMem_Free(entry);
}

/* Caches a program. Takes over the words of the key, and steals the reference to the ops. */
static void keep(Key *key, PyObject *ops, PyObject *program, PyObject *counter) {
    Entry *entry = PyMem_Calloc(1, sizeof *entry);
    if (entry == NULL) { /* out of memory: not cached */
        Py_DECREF(ops);
        return;
    }
    *entry = (Entry){key->key, ops, Py_NewRef(program), Py_NewRef(counter)};
    key->key.words = NULL;
    WordKey *evicted = cache_add(sets, SET_COUNT, &entry->key);
    if (evicted != NULL)
        release_entry(evicted);
}

/* Whether a result has the shape and dtype of a node. */
static bool fits(PyObject *result, Node *node) {
    PyArrayObject *array = as_ndarray(result);
    if (PyArray_NDIM(array) != PyTuple_GET_SIZE(node->shape))
        return false;
    for (int axis = 0; axis < PyArray_NDIM(array); axis++) {
        if (PyLong_AsSsize_t(PyTuple_GET_ITEM(node->shape, axis)) != PyArray_DIM(array, axis))
            return false;
    }
    return PyArray_DESCR(array) == (PyArray_Descr *)((Dtype *)node->dtype)->numpy;
}

/* Sets the values of the live-out nodes: 1, or 0 if they are not as inferred, which op-by-op evaluation reports. */
static int set_results(const Key *key, const NodeList *order, PyObject *results) {
    for (Py_ssize_t i = 0; i < key->live_count; i++) {
        if (!fits(PyTuple_GET_ITEM(results, i), order->items[key->live_out[i]])) {
            PyErr_Clear();
            return 0;
        }
    }
    for (Py_ssize_t i = 0; i < key->live_count; i++) {
        Node *node = order->items[key->live_out[i]];
        if (node->data == NULL) /* else another thread was faster */
            node->data = Py_NewRef(PyTuple_GET_ITEM(results, i));
    }
    return 1;
}

/* Runs a program on the leaves: 1 done, 0 declined, -1 error. */
static int run_entry(Entry *entry, const Key *key, const NodeList *order) {
    PyObject *fast[16], **values = fast;
    if (key->leaf_count > 16 && (values = PyMem_Malloc((size_t)key->leaf_count * sizeof *values)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < key->leaf_count; i++)
        values[i] = Py_NewRef(key->leaves[i]->data); /* other threads may release the leaves meanwhile */
    PyObject *program = Py_NewRef(entry->program), *counter = Py_NewRef(entry->counter), *suspended = NULL;
    PyObject *results = ingot_program_run(program, values, key->leaf_count, NULL, &suspended);
    int status = results == NULL ? -1 : 0;
    if (results != NULL && results != Py_NotImplemented)
        status = set_results(key, order, results);
    if (status == 1) {
        ingot_count_use(counter);
        run_count++;
    }
    Py_XDECREF(results);
    Py_DECREF(program);
    Py_DECREF(counter);
    for (Py_ssize_t i = 0; i < key->leaf_count; i++)
        Py_DECREF(values[i]);
    if (values != fast)
        PyMem_Free(values);
    return status;
}

/* ---- offering graphs to the compiler ---- */

static PyObject *list_of_positions(const Key *key) {
    PyObject *list = PyList_New(key->live_count);
    for (Py_ssize_t i = 0; list != NULL && i < key->live_count; i++) {
        PyObject *position = PyLong_FromSsize_t(key->live_out[i]);
        if (position == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, position);
    }
    return list;
}

/* The ops of the graph, a tuple; NULL without an error if memory is exhausted or another thread has evaluated a node. */
static PyObject *tuple_of_ops(const NodeList *order) {
    PyObject *ops = PyTuple_New(order->count);
    for (Py_ssize_t i = 0; ops != NULL && i < order->count; i++) {
        if (order->items[i]->op == NULL)
            Py_CLEAR(ops);
        else
            PyTuple_SET_ITEM(ops, i, Py_NewRef(order->items[i]->op));
    }
    PyErr_Clear();
    return ops;
}

/* Whether the callback returned a program for equal graphs, and the counter of its runs. */
static bool is_program_and_counter(PyObject *done) {
    return PyTuple_Check(done) && PyTuple_GET_SIZE(done) == 2 && ingot_is_program(PyTuple_GET_ITEM(done, 0)) &&
           Py_IS_TYPE(PyTuple_GET_ITEM(done, 1), UseCounter_Type);
}

static int offer(Key *key, const NodeList *order, bool is_frequent) {
    PyObject *ops = key->has_program_key ? tuple_of_ops(order) : NULL;
    PyObject *nodes = node_list_as_list(order), *wanted = list_of_positions(key), *done = NULL;
    PyObject *fuse = Py_XNewRef(callbacks.fuse); /* another thread may remove it */
    ENGINE_PAUSE
    if (nodes != NULL && wanted != NULL && fuse != NULL)
        done = PyObject_CallFunctionObjArgs(fuse, nodes, wanted, is_frequent ? Py_True : Py_False, NULL);
    else if (!PyErr_Occurred())
        done = Py_NewRef(Py_False);
    ENGINE_RESUME
    Py_XDECREF(fuse);
    int status = done == NULL ? -1 : PyObject_IsTrue(done);
    if (status == 1 && ops != NULL && is_program_and_counter(done))
        keep(key, Py_NewRef(ops), PyTuple_GET_ITEM(done, 0), PyTuple_GET_ITEM(done, 1));
    Py_XDECREF(done);
    Py_XDECREF(nodes);
    Py_XDECREF(wanted);
    Py_XDECREF(ops);
    return status;
}

/* Counts a run of a small graph; whether it has recurred often enough for a program to pay off. Then counting starts over. */
static bool recurs_often(const Key *key, double weight) {
    if (!key->has_program_key)
        return false;
    if (counters[key->key.hash % COUNTER_COUNT].hash != key->key.hash) {
        counters[key->key.hash % COUNTER_COUNT].hash = key->key.hash;
        counters[key->key.hash % COUNTER_COUNT].seen = 0;
    }
    counters[key->key.hash % COUNTER_COUNT].seen += weight;
    if (counters[key->key.hash % COUNTER_COUNT].seen < MIN_SMALL_GRAPH_RUNS)
        return false;
    counters[key->key.hash % COUNTER_COUNT].seen = 0;
    return true;
}

int evaluate_whole_graph(NodeList *order, Node **outputs, Py_ssize_t count, bool computes_pending, bool tracing) {
    Offer offered = offer_of_graph(order, computes_pending, tracing);
    if (offered.size == DECLINED)
        return 0;
    Key key = {0};
    int status = make_key(&key, order, outputs, count);
    const NodeList *outer = evaluated;
    evaluated = order;
    if (status == 1) {
        /* While a profile is active, Python runs the graph, because it reports the nodes. */
        Entry *entry = key.has_program_key && callbacks.ran_node == NULL ? find(&key, order) : NULL;
        status = entry == NULL ? 0 : run_entry(entry, &key, order);
        if (status == 0 && (offered.size == LARGE || entry != NULL || recurs_often(&key, offered.weight)))
            status = offer(&key, order, offered.size == SMALL);
    }
    evaluated = outer;
    release_key(&key);
    return status;
}

void forget_graphs(void) {
    cache_clear(sets, SET_COUNT, release_entry);
    memset(counters, 0, sizeof counters);
}

/* evaluated_nodes() -> the nodes of the graph that this thread evaluates as a whole; none if it does not */
static PyObject *evaluated_nodes(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    return evaluated == NULL ? PyList_New(0) : node_list_as_list(evaluated);
}

static PyObject *graph_runs(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    return PyLong_FromLongLong(run_count);
}

static PyObject *forget_graphs_function(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    forget_graphs();
    Py_RETURN_NONE;
}

LOCKS_METHOD(forget_graphs_function)
LOCKS_METHOD(evaluated_nodes)
LOCKS_METHOD(graph_runs)

static PyMethodDef functions[] = {
    {"forget_graphs", LOCKED(forget_graphs_function), METH_NOARGS, "Empties the cache of programs for whole graphs."},
    {"evaluated_nodes", LOCKED(evaluated_nodes), METH_NOARGS, "The nodes of the graph that this thread evaluates as a whole."},
    {"graph_runs", LOCKED(graph_runs), METH_NOARGS, "The number of graphs that ran without entering Python."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_whole_graph(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
