/* Node: an immutable value in the graph. */
#include "native.h"
#include "numpy_api.h"
#include <structmember.h>

PyTypeObject *Node_Type;

static _Thread_local PyObject *thread_stream; /* borrowed: streams are never freed */
static PyObject *process_stream;
/* (code, instruction) -> the user's source line. Called for new nodes of this thread while compile traces. */
static _Thread_local PyObject *source_recorder;
/* The last instruction whose line it was asked for: a layer makes dozens of nodes at one. */
static _Thread_local struct {
    PyCodeObject *code;
    int instruction;
    PyObject *source;
} last_line;

static uint64_t last_mark; /* traversals hold the engine lock throughout, so one counter serves all threads */

uint64_t next_mark(void) {
    return ++last_mark;
}

void advance_marks(uint64_t count) {
    last_mark += count;
}

PyObject *resolve_stream(PyObject *requested) {
    if (requested == NULL || requested == Py_None) {
        PyObject *stream = thread_stream ? thread_stream : process_stream;
        return stream ? stream : Py_None;
    }
    if (REQUIRED(resolve_stream) == NULL)
        return NULL;
    PyObject *stream = PyObject_CallOneArg(callbacks.resolve_stream, requested);
    Py_XDECREF(stream); /* the registry of streams holds a reference */
    return stream;
}

#define MAX_ELEMENTS ((int64_t)1 << 59) /* as in graph/shape.py: addressable, and sums do not overflow */
#define MAX_AXES 64                     /* NumPy's limit */

/* Rejects shapes that no memory could hold, whichever op made them. Symbolic dimensions are checked once they are
 * numbers. */
static int check_shape(PyObject *op, PyObject *shape) {
    Py_ssize_t axes = PyTuple_GET_SIZE(shape);
    int64_t elements = 1;
    bool fits = true;
    for (Py_ssize_t i = 0; i < axes && fits; i++) {
        PyObject *item = PyTuple_GET_ITEM(shape, i);
        if (PyTuple_CheckExact(item)) { /* the shape of one of several outputs, whose number is not limited */
            if (check_shape(op, item) < 0)
                return -1;
            if (i == axes - 1)
                return 0;
            continue;
        }
        if (!PyLong_CheckExact(item))
            return 0; /* a symbolic dimension */
        int overflow;
        int64_t length = PyLong_AsLongLongAndOverflow(item, &overflow);
        fits = !overflow && !__builtin_mul_overflow(elements, length > 1 ? length : 1, &elements) && elements <= MAX_ELEMENTS;
    }
    if (fits && axes <= MAX_AXES)
        return 0;
    const char *name = op == NULL ? "array" : Py_TYPE(op)->tp_name;
    if (axes > MAX_AXES)
        PyErr_Format(PyExc_ValueError, "[%s] an array has at most %d axes, got %zd.", name, MAX_AXES, axes);
    else
        PyErr_Format(PyExc_OverflowError, "[%s] an array of shape %R has more elements than memory has addresses.", name,
                     shape);
    return -1;
}

/* The recorder's line for the running instruction of the user's code: None if there is none. */
static PyObject *recorded_line(void) {
    int instruction;
    PyCodeObject *code = ingot_user_code(&instruction);
    if (code == NULL)
        return Py_NewRef(Py_None);
    if (last_line.code != code || last_line.instruction != instruction) {
        PyObject *source = PyObject_CallFunction(source_recorder, "Oi", code, instruction);
        if (source == NULL) {
            Py_DECREF(code);
            return NULL;
        }
        Py_XSETREF(last_line.code, (PyCodeObject *)Py_NewRef(code));
        Py_XSETREF(last_line.source, source);
        last_line.instruction = instruction;
    }
    Py_DECREF(code);
    return Py_NewRef(last_line.source);
}

Node *node_new_without_line(PyObject *op, PyObject *inputs, PyObject *shape, PyObject *dtype, PyObject *stream) {
    Node *node = PyObject_New(Node, Node_Type);
    if (node == NULL)
        return NULL;
    node->op = Py_XNewRef(op);
    node->inputs = Py_XNewRef(inputs);
    node->shape = Py_NewRef(shape);
    node->dtype = Py_NewRef(dtype);
    node->stream = Py_NewRef(stream);
    node->data = NULL;
    node->suspended = NULL;
    node->pending = NULL;
    node->source = NULL;
    node->trace = Py_XNewRef(source_recorder);
    node->code = NULL;
    node->instruction = 0;
    node->mark = 0;
    node->tracer = false;
    node->running = 0;
    node->runner = 0;
    if (inputs != NULL) {
        for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++)
            node->tracer |= ((Node *)PyTuple_GET_ITEM(inputs, i))->tracer;
    }
    if (source_recorder != NULL && op != NULL) {
        Node *same = ingot_line_of();
        bool known = same != NULL && same->trace == source_recorder && same->source != NULL;
        node->source = known ? Py_NewRef(same->source) : recorded_line();
        if (node->source == NULL) {
            Py_DECREF(node);
            return NULL;
        }
    }
    return node;
}

Node *node_new(PyObject *op, PyObject *inputs, PyObject *shape, PyObject *dtype, PyObject *stream) {
    if (check_shape(op, shape) < 0)
        return NULL;
    Node *node = node_new_without_line(op, inputs, shape, dtype, stream);
    if (node == NULL || op == NULL || node->source != NULL)
        return node;
    Node *same = ingot_line_of();
    if (same != NULL && same->code != NULL) {
        node->code = (PyCodeObject *)Py_NewRef(same->code);
        node->instruction = same->instruction;
    } else {
        node->code = ingot_user_code(&node->instruction);
    }
    return node;
}

enum { SHORT = 64 };

/* Input tuples of nodes that a thread deallocates, released in a loop: a chain of a million nodes must not recurse. */
typedef struct {
    PyObject **items; /* allocated while it is drained, unless it is short */
    size_t count, capacity;
    bool draining;
} Doomed;

static _Thread_local Doomed doomed;

static bool make_room(Doomed *list) {
    size_t capacity = 2 * list->capacity;
    PyObject **items = PyMem_Malloc(capacity * sizeof *items);
    if (items == NULL)
        return false;
    memcpy(items, list->items, list->count * sizeof *items);
    if (list->capacity > SHORT)
        PyMem_Free(list->items);
    list->items = items;
    list->capacity = capacity;
    return true;
}

static void release_later(PyObject *inputs) {
    Doomed *list = &doomed;
    if (list->draining) {
        if (list->count < list->capacity || make_room(list))
            list->items[list->count++] = inputs;
        else
            Py_DECREF(inputs); /* out of memory: fall back to recursion */
        return;
    }
    PyObject *few[SHORT];
    *list = (Doomed){few, 0, SHORT, true};
    Py_DECREF(inputs);
    while (list->count > 0)
        Py_DECREF(list->items[--list->count]);
    if (list->capacity > SHORT)
        PyMem_Free(list->items);
    list->draining = false;
}

void node_detach(Node *node) {
    PyObject *inputs = node->inputs;
    node->inputs = NULL;
    node->tracer = false; /* without inputs, the value does not depend on what a transform follows */
    Py_CLEAR(node->op);
    Py_CLEAR(node->pending);
    if (inputs != NULL)
        release_later(inputs);
}

static void node_dealloc(Node *self) {
    node_detach(self);
    Py_XDECREF(self->shape);
    Py_XDECREF(self->dtype);
    Py_XDECREF(self->stream);
    Py_XDECREF(self->data);
    Py_XDECREF(self->source);
    Py_XDECREF(self->trace);
    Py_XDECREF(self->code);
    Py_XDECREF(self->suspended);
    PyTypeObject *type = Py_TYPE(self);
    PyObject_Free(self);
    Py_DECREF(type);
}

static PyObject *node_inputs(Node *self, void *Py_UNUSED(closure)) {
    return self->inputs ? Py_NewRef(self->inputs) : PyTuple_New(0);
}

static PyObject *node_evaluated(Node *self, void *Py_UNUSED(closure)) {
    return PyBool_FromLong(self->data != NULL);
}

static PyObject *node_data(Node *self, void *Py_UNUSED(closure)) {
    return node_view(self);
}

/* The user's line. While compile traces, it is recorded as `source` instead. */
static PyObject *node_origin(Node *self, void *Py_UNUSED(closure)) {
    if (self->source != NULL && self->source != Py_None)
        return Py_NewRef(self->source);
    if (self->code == NULL || REQUIRED(source_of) == NULL)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    return PyObject_CallFunction(callbacks.source_of, "Oi", self->code, self->instruction);
}

static PyObject *node_repr(PyObject *object) {
    Node *self = (Node *)object;
    PyObject *op = ingot_get_field(object, (void *)offsetof(Node, op)), *text;
    if (op == Py_None)
        text = PyUnicode_FromFormat("<Node %s %S %R>", self->data ? "value" : "placeholder", self->dtype, self->shape);
    else
        text = PyUnicode_FromFormat("<Node %R %S %R>", op, self->dtype, self->shape);
    Py_DECREF(op);
    return text;
}

static PyMemberDef members[] = {
    {"shape", T_OBJECT, offsetof(Node, shape), READONLY, "Tuple of ints; of shapes when the op has several outputs."},
    {"dtype", T_OBJECT, offsetof(Node, dtype), READONLY, "Dtype; a tuple of them when the op has several outputs."},
    {"stream", T_OBJECT, offsetof(Node, stream), READONLY, "The stream that the op was given."},
    {"tracer", T_BOOL, offsetof(Node, tracer), 0, "Whether the node depends on an input of a running transform."},
    {NULL, 0, 0, 0, NULL},
};

LOCKS_GETTER(node_inputs)
LOCKS_GETTER(node_origin)
LOCKS_GETTER(node_evaluated)
LOCKS_GETTER(node_data)

static PyGetSetDef properties[] = {
    SHARED_READONLY_FIELD("op", Node, op, "The op that computes this node; None for a leaf."),
    SHARED_FIELD("source", Node, source, "The user's line that made the node, while compile traces."),
    SHARED_FIELD(
        "trace", Node, trace,
        "The recorder of the trace that made the node: how many of its nodes there are is the number of references to it."),
    SHARED_FIELD("pending", Node, pending, "Callable that waits for an asynchronous evaluation."),
    {"inputs", (getter)LOCKED(node_inputs), NULL, "The nodes that the op takes; empty for a leaf.", NULL},
    {"origin", (getter)LOCKED(node_origin), NULL, "The user's line that made the node, or None.", NULL},
    {"evaluated", (getter)LOCKED(node_evaluated), NULL, "Whether the value is there.", NULL},
    {"data", (getter)LOCKED(node_data), NULL, "The value as a NumPy array, evaluated first if needed.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_dealloc, node_dealloc},
    {Py_tp_repr, node_repr},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
    {Py_tp_doc, "One immutable value of the graph."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.Node",
    .basicsize = sizeof(Node),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

Node *as_node(PyObject *object) {
    if (is_array(object))
        return ((Array *)object)->node;
    if (Py_IS_TYPE(object, Node_Type))
        return (Node *)object;
    PyErr_Format(PyExc_TypeError, "expected an array, got %s.", Py_TYPE(object)->tp_name);
    return NULL;
}

static PyObject *nodes_of(PyObject *sequence) {
    PyObject *given = PySequence_Fast(sequence, "inputs must be a sequence of arrays.");
    PyObject *fast = given == NULL ? NULL : ingot_steady_sequence(given);
    Py_XDECREF(given);
    if (fast == NULL)
        return NULL;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
    PyObject *nodes = PyTuple_New(count);
    for (Py_ssize_t i = 0; nodes != NULL && i < count; i++) {
        Node *node = as_node(PySequence_Fast_GET_ITEM(fast, i));
        if (node == NULL)
            Py_CLEAR(nodes);
        else
            PyTuple_SET_ITEM(nodes, i, Py_NewRef(node));
    }
    Py_DECREF(fast);
    return nodes;
}

/* make(op, inputs, shape, dtype, stream=None) -> array */
static PyObject *make(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count < 4 || count > 5) {
        PyErr_SetString(PyExc_TypeError, "make takes op, inputs, shape, dtype and perhaps a stream.");
        return NULL;
    }
    if (!PyTuple_Check(arguments[2])) {
        PyErr_Format(PyExc_TypeError, "a shape must be a tuple, got %R.", arguments[2]);
        return NULL;
    }
    PyObject *stream = resolve_stream(count == 5 ? arguments[4] : NULL);
    PyObject *inputs = stream == NULL ? NULL : nodes_of(arguments[1]);
    if (inputs == NULL)
        return NULL;
    Node *node = node_new(arguments[0], inputs, arguments[2], arguments[3], stream);
    Py_DECREF(inputs);
    return node == NULL ? NULL : array_from_node(node);
}

/* constant(ndarray, dtype) -> array: an evaluated leaf */
static PyObject *constant(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !Py_IS_TYPE(arguments[1], Dtype_Type)) {
        PyErr_SetString(PyExc_TypeError, "constant takes an ndarray and a Dtype.");
        return NULL;
    }
    if (!is_ndarray(arguments[0])) {
        PyErr_Format(PyExc_TypeError, "constant takes an ndarray, got %s.", Py_TYPE(arguments[0])->tp_name);
        return NULL;
    }
    PyArrayObject *array = as_ndarray(arguments[0]);
    PyObject *shape = PyArray_IntTupleFromIntp(PyArray_NDIM(array), PyArray_DIMS(array));
    if (shape == NULL)
        return NULL;
    Node *node = node_new(NULL, NULL, shape, arguments[1], resolve_stream(NULL));
    Py_DECREF(shape);
    if (node == NULL)
        return NULL;
    node->data = Py_NewRef(arguments[0]);
    return array_from_node(node);
}

/* placeholder(shape, dtype) -> array: a leaf without a value, for tracing */
static PyObject *placeholder(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !PyTuple_Check(arguments[0]) || !Py_IS_TYPE(arguments[1], Dtype_Type)) {
        PyErr_SetString(PyExc_TypeError, "placeholder takes a shape and a Dtype.");
        return NULL;
    }
    Node *node = node_new(NULL, NULL, arguments[0], arguments[1], resolve_stream(NULL));
    if (node == NULL)
        return NULL;
    node->tracer = true;
    return array_from_node(node);
}

static PyObject *set_thread_stream(PyObject *Py_UNUSED(module), PyObject *stream) {
    thread_stream = stream == Py_None ? NULL : stream;
    Py_RETURN_NONE;
}

static PyObject *set_process_stream(PyObject *Py_UNUSED(module), PyObject *stream) {
    Py_XSETREF(process_stream, Py_NewRef(stream));
    Py_RETURN_NONE;
}

static PyObject *set_source_recorder(PyObject *Py_UNUSED(module), PyObject *recorder) {
    PyObject *previous = source_recorder == NULL ? Py_NewRef(Py_None) : source_recorder;
    source_recorder = recorder == Py_None ? NULL : Py_NewRef(recorder);
    Py_CLEAR(last_line.code);
    Py_CLEAR(last_line.source);
    return previous;
}

bool recording_sources(void) {
    return source_recorder != NULL;
}

static PyObject *recording(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    return PyBool_FromLong(recording_sources());
}

static PyObject *current_stream(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    return Py_NewRef(resolve_stream(NULL));
}

LOCKS_FAST_METHOD(make)
LOCKS_FAST_METHOD(constant)
LOCKS_FAST_METHOD(placeholder)
LOCKS_METHOD(set_process_stream)
LOCKS_METHOD(current_stream)

static PyMethodDef functions[] = {
    {"make", (PyCFunction)(void (*)(void))LOCKED(make), METH_FASTCALL, "make(op, inputs, shape, dtype, stream=None) -> array"},
    {"constant", (PyCFunction)(void (*)(void))LOCKED(constant), METH_FASTCALL, "constant(ndarray, dtype) -> array"},
    {"placeholder", (PyCFunction)(void (*)(void))LOCKED(placeholder), METH_FASTCALL, "placeholder(shape, dtype) -> array"},
    {"set_thread_stream", set_thread_stream, METH_O, "The stream of ops made by this thread; None: the process's."},
    {"set_process_stream", LOCKED(set_process_stream), METH_O, "The stream of ops made by threads that have none."},
    {"set_source_recorder", set_source_recorder, METH_O,
     "set_source_recorder(function of a code object and an offset in it, or None) -> the one before: gives the lines of "
     "new nodes on this thread."},
    {"recording", recording, METH_NOARGS, "Whether compile traces on this thread."},
    {"current_stream", LOCKED(current_stream), METH_NOARGS, "The stream that an op made now would get."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_node(PyObject *module) {
    Node_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (Node_Type == NULL || PyModule_AddObjectRef(module, "Node", (PyObject *)Node_Type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
