/* Evaluation: orders the unevaluated part of a graph without recursion and runs each op's `evaluate` rule. */
#include "communication/progress.h"
#include "evaluate/whole_graph.h"
#include "objects/depth_first.h"
#include "products/read_ahead.h"
#include "programs/kept_panels.h"
#include "threads/interrupt.h"

/* The number of transforms running on this thread: while there are any, tracers keep their graphs. */
static _Thread_local int tracing_depth;
/* The context (NumPy's error state and allocator) in which this thread evaluates; entered once at a time. */
static _Thread_local PyObject *thread_context;
static _Thread_local bool inside_context;
/* Whether this thread computes nodes that are pending instead of waiting for them: the thread that runs asynchronous
 * evaluations does, so it never waits for itself. */
static _Thread_local bool computes_pending;

bool ingot_is_tracing(void) {
    return tracing_depth > 0;
}

static bool is_ready(Node *node, const void *Py_UNUSED(context)) {
    return node->data != NULL;
}

static bool is_computed_here(Node *node, const void *Py_UNUSED(context)) {
    return node->inputs != NULL && (node->pending == NULL || computes_pending);
}

static bool always(Node *Py_UNUSED(node), const void *Py_UNUSED(context)) {
    return true;
}

/* The nodes that the outputs depend on, in topological order, except those that `skip` excludes. */
static int order_nodes(Node **outputs, Py_ssize_t count, bool (*skip)(Node *, const void *), NodeList *order) {
    return depth_first(outputs, count, (Traversal){skip, is_computed_here, always}, NULL, order);
}

static int enter_context(void) {
    if (thread_context == NULL) {
        if (REQUIRED(make_context) == NULL)
            return -1;
        thread_context = PyObject_CallNoArgs(callbacks.make_context);
        if (thread_context == NULL)
            return -1;
    }
    if (PyContext_Enter(thread_context) < 0)
        return -1;
    inside_context = true;
    return 0;
}

static void leave_context(void) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    inside_context = false;
    if (PyContext_Exit(thread_context) < 0)
        PyErr_WriteUnraisable(thread_context);
    PyErr_Restore(type, value, traceback);
}

/* Drops the op and inputs of an evaluated node, unless a running transform may need them. */
static void forget_graph(Node *node) {
    if (node->op != NULL && node->data != NULL && !(node->tracer && tracing_depth > 0))
        node_detach(node);
}

/* Moves what waits for communication in flight behind what does not. */
static int put_off_waits(NodeList *order) {
    if (callbacks.finish_type == NULL || order->count < 2)
        return 0;
    bool *waits = PyMem_Calloc((size_t)order->count, sizeof *waits);
    Node **moved = PyMem_Malloc((size_t)order->count * sizeof *moved);
    if (waits == NULL || moved == NULL) {
        PyMem_Free(waits);
        PyMem_Free(moved);
        PyErr_NoMemory();
        return -1;
    }
    uint64_t base = next_mark(); /* marks become positions in the order */
    advance_marks((uint64_t)order->count);
    Py_ssize_t first = 0, second = 0;
    for (Py_ssize_t i = 0; i < order->count; i++) {
        Node *node = order->items[i];
        node->mark = base + (uint64_t)i;
        waits[i] = node->op != NULL && PyObject_TypeCheck(node->op, (PyTypeObject *)callbacks.finish_type);
        for (Py_ssize_t k = 0; !waits[i] && node->inputs != NULL && k < PyTuple_GET_SIZE(node->inputs); k++) {
            uint64_t position = ((Node *)PyTuple_GET_ITEM(node->inputs, k))->mark - base;
            waits[i] = position < (uint64_t)i && waits[position];
        }
        if (waits[i])
            moved[second++] = node;
        else
            order->items[first++] = node;
    }
    memcpy(order->items + first, moved, (size_t)second * sizeof *moved);
    PyMem_Free(waits);
    PyMem_Free(moved);
    return 0;
}

int evaluate_nodes(Node **outputs, Py_ssize_t count) {
    NodeList order = {0};
    int status = order_nodes(outputs, count, is_ready, &order);
    if (status == 0)
        status = put_off_waits(&order);
    bool entered = false;
    if (status == 0 && order.count > 0 && !inside_context) {
        status = enter_context();
        entered = status == 0;
        ingot_start_polling();
    }
    if (status == 0) {
        int fused = evaluate_whole_graph(&order, outputs, count, computes_pending, tracing_depth > 0);
        if (fused < 0)
            status = -1;
        for (Py_ssize_t i = 0; fused == 1 && i < order.count; i++) {
            if (order.items[i]->data != NULL)
                node_detach(order.items[i]);
            Py_DECREF(order.items[i]);
        }
        if (fused == 1)
            order.count = 0;
    }
    Py_ssize_t next_read = 0;
    for (Py_ssize_t i = 0; i < order.count; i++) {
        Node *node = order.items[i];
        if (status == 0 && i % 16 == 15 && ingot_should_stop()) /* ops in Python check for signals by themselves */
            status = -1;
        if (status == 0) {
            read_ahead(&order, i, &next_read);
            status = run_node(node, outputs[0], computes_pending, tracing_depth > 0);
        }
        ingot_make_progress();
        if (status == 0)
            forget_graph(node);
        Py_DECREF(node);
    }
    /* Nodes that were evaluated while a transform was running still have their inputs. */
    for (Py_ssize_t i = 0; i < count && status == 0; i++)
        forget_graph(outputs[i]);
    if (entered)
        leave_context();
    if (entered && status < 0)
        ingot_shorten_traceback();
    PyMem_Free(order.items);
    return status;
}

PyObject *node_view(Node *node) {
    Py_INCREF(node); /* evaluation may drop the last other reference */
    PyObject *data = NULL;
    if (node->data != NULL || evaluate_nodes(&node, 1) == 0)
        data = Py_NewRef(node->data);
    if (data != NULL)
        ingot_lend(data); /* the caller may write to its memory */
    forget_graph(node);
    Py_DECREF(node);
    return data;
}

static PyObject *evaluate(PyObject *Py_UNUSED(module), PyObject *arrays) {
    NodeList outputs = {0};
    int status = node_list_collect(arrays, &outputs);
    if (status == 0)
        status = evaluate_nodes(outputs.items, outputs.count);
    node_list_release(&outputs);
    if (status < 0)
        return NULL;
    Py_RETURN_NONE;
}

/* evaluate_arrays(tuple) -> whether all are arrays, which are evaluated then; a subclass may be something else */
static PyObject *evaluate_arrays(PyObject *Py_UNUSED(module), PyObject *arrays) {
    Node *few[8];
    Py_ssize_t count = PyTuple_Check(arrays) ? PyTuple_GET_SIZE(arrays) : PY_SSIZE_T_MAX;
    if (count > (Py_ssize_t)Py_ARRAY_LENGTH(few))
        Py_RETURN_FALSE;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (!Py_IS_TYPE(PyTuple_GET_ITEM(arrays, i), Array_Type))
            Py_RETURN_FALSE;
    }
    for (Py_ssize_t i = 0; i < count; i++) /* evaluation may let an array refer to another node */
        few[i] = (Node *)Py_NewRef(((Array *)PyTuple_GET_ITEM(arrays, i))->node);
    int status = evaluate_nodes(few, count);
    for (Py_ssize_t i = 0; i < count; i++)
        Py_DECREF(few[i]);
    return status < 0 ? NULL : Py_NewRef(Py_True);
}

/* evaluate_pending(arrays): as evaluate, but computes nodes that are pending instead of waiting for them */
static PyObject *evaluate_pending(PyObject *module, PyObject *arrays) {
    bool outer = computes_pending, foreground = !ingot_set_background(true);
    computes_pending = true;
    PyObject *result = evaluate(module, arrays);
    computes_pending = outer;
    ingot_set_background(!foreground);
    return result;
}

/* mark_pending(arrays, wait) -> bool: marks all unevaluated nodes that the arrays depend on, so that evaluating one calls
 * `wait`. Nodes that are already pending keep their own. False if there is nothing to compute. */
static PyObject *mark_pending(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *arrays, *wait;
    if (!PyArg_ParseTuple(arguments, "OO:mark_pending", &arrays, &wait))
        return NULL;
    NodeList outputs = {0}, order = {0};
    PyObject *result = NULL;
    if (node_list_collect(arrays, &outputs) == 0 && order_nodes(outputs.items, outputs.count, is_ready, &order) == 0) {
        for (Py_ssize_t i = 0; i < order.count; i++) {
            if (order.items[i]->pending == NULL)
                order.items[i]->pending = Py_NewRef(wait);
        }
        result = PyBool_FromLong(order.count > 0);
    }
    node_list_release(&order);
    node_list_release(&outputs);
    return result;
}

static bool never(Node *Py_UNUSED(node), const void *Py_UNUSED(context)) {
    return false;
}

/* topological(outputs) -> every node that the outputs depend on, inputs before users */
static PyObject *topological(PyObject *Py_UNUSED(module), PyObject *arrays) {
    NodeList outputs = {0}, order = {0};
    PyObject *list = NULL;
    if (node_list_collect(arrays, &outputs) == 0 && order_nodes(outputs.items, outputs.count, never, &order) == 0)
        list = node_list_as_list(&order);
    node_list_release(&order);
    node_list_release(&outputs);
    return list;
}

/* set_data(node, ndarray): sets the value of a node that was computed as part of a graph */
static PyObject *set_data(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    Node *node = count == 2 ? as_node(arguments[0]) : NULL;
    if (node == NULL || node->op == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_TypeError, "set_data takes a node that is not evaluated, and an ndarray.");
        return NULL;
    }
    PyObject *checked = checked_results(node->op, arguments[1], node);
    if (checked == NULL)
        return NULL;
    Py_XSETREF(node->data, checked);
    Py_RETURN_NONE;
}

/* `with tracing:` while a transform runs, tracers keep their inputs. In C, so that no signal handler can run between the
 * increment and the start of the block. */
static PyObject *begin_tracing(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(ignored)) {
    tracing_depth++;
    Py_RETURN_NONE;
}

static PyObject *end_tracing(PyObject *Py_UNUSED(self), PyObject *Py_UNUSED(exception)) {
    tracing_depth--;
    Py_RETURN_NONE;
}

static PyMethodDef tracing_methods[] = {
    {"__enter__", begin_tracing, METH_NOARGS, "Begins a transform on this thread."},
    {"__exit__", end_tracing, METH_VARARGS, "Ends it."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot tracing_slots[] = {
    {Py_tp_doc, "A context in which evaluated tracers keep their inputs."},
    {Py_tp_methods, tracing_methods},
    {0, NULL},
};

static PyType_Spec tracing_spec = {
    .name = "ingot._native.Tracing",
    .basicsize = sizeof(PyObject),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = tracing_slots,
};

static PyObject *in_tracing(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    return PyBool_FromLong(tracing_depth > 0);
}

/* in_transform() -> whether a transform other than the trace of compile is running on this thread */
static PyObject *in_transform(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    return PyBool_FromLong(tracing_depth > (recording_sources() ? 1 : 0));
}

LOCKS_METHOD(evaluate)
LOCKS_METHOD(evaluate_arrays)
LOCKS_METHOD(evaluate_pending)
LOCKS_METHOD(mark_pending)
LOCKS_METHOD(topological)
LOCKS_FAST_METHOD(set_data)

static PyMethodDef functions[] = {
    {"evaluate", LOCKED(evaluate), METH_O, "evaluate(arrays): computes the values of arrays that have none"},
    {"evaluate_arrays", LOCKED(evaluate_arrays), METH_O,
     "evaluate_arrays(tuple) -> whether all are arrays, which are evaluated then"},
    {"evaluate_pending", LOCKED(evaluate_pending), METH_O,
     "evaluate_pending(arrays): as evaluate, but computes pending nodes instead of waiting for them"},
    {"mark_pending", LOCKED(mark_pending), METH_VARARGS, "mark_pending(arrays, wait) -> whether there is anything to compute"},
    {"topological", LOCKED(topological), METH_O, "topological(arrays) -> all nodes that they depend on, in topological order"},
    {"set_data", (PyCFunction)(void (*)(void))LOCKED(set_data), METH_FASTCALL,
     "set_data(node, ndarray): sets the value of a node"},
    {"in_tracing", in_tracing, METH_NOARGS, "Whether a transform is running on this thread."},
    {"in_transform", in_transform, METH_NOARGS, "Whether a transform besides compile is running on this thread."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_evaluate(PyObject *module) {
    PyObject *type = PyType_FromSpec(&tracing_spec);
    PyObject *tracing = type == NULL ? NULL : PyObject_CallNoArgs(type);
    int failed = tracing == NULL || PyModule_AddObjectRef(module, "tracing", tracing) < 0;
    Py_XDECREF(tracing);
    Py_XDECREF(type);
    return failed ? -1 : PyModule_AddFunctions(module, functions);
}
