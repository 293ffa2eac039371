/* The order of communication: each is a node whose last input is the token of the one before (graph/communication/order.py). */
#include "native.h"

typedef struct {
    PyObject *op, *shape, *dtype, *value; /* of tokens: the op `Done`, and the value of all of them */
} Token;

/* Gives a token its value if the communication that it stands for is done, so that nobody has to evaluate it. */
static void settle(Node *token, const Token *kind) {
    if (token->op == NULL || Py_TYPE(token->op) != Py_TYPE(kind->op) || token->data != NULL || token->tracer ||
        token->inputs == NULL || ((Node *)PyTuple_GET_ITEM(token->inputs, 0))->data == NULL)
        return;
    token->data = Py_NewRef(kind->value);
    node_detach(token);
}

static PyObject *tuple_with(PyObject *const *inputs, Py_ssize_t count, Node *token) {
    PyObject *nodes = PyTuple_New(count + 1);
    for (Py_ssize_t i = 0; nodes != NULL && i < count; i++) {
        Node *node = as_node(inputs[i]);
        if (node == NULL)
            Py_CLEAR(nodes);
        else
            PyTuple_SET_ITEM(nodes, i, Py_NewRef(node));
    }
    if (nodes != NULL)
        PyTuple_SET_ITEM(nodes, count, Py_NewRef(token));
    return nodes;
}

/* What a new communication is made of. */
typedef struct {
    PyObject *op, *shape, *dtype, *stream;
    PyObject *const *inputs; /* arrays or nodes, to which the token is added */
    Py_ssize_t input_count;
} Parts;

static PyObject *make_after(const Parts *parts, PyObject *tokens, const Token *kind) {
    Node *before = as_node(PyList_GET_ITEM(tokens, 0));
    PyObject *stream = before == NULL ? NULL : resolve_stream(parts->stream);
    if (stream == NULL)
        return NULL;
    settle(before, kind);
    PyObject *inputs = tuple_with(parts->inputs, parts->input_count, before), *sources = NULL, *token = NULL, *result = NULL;
    Node *node = inputs == NULL ? NULL : node_new(parts->op, inputs, parts->shape, parts->dtype, stream), *done = NULL;
    if (node != NULL && (sources = PyTuple_Pack(1, node)) != NULL)
        done = recording_sources() ? node_new(kind->op, sources, kind->shape, kind->dtype, stream)
                                   : node_new_without_line(kind->op, sources, kind->shape, kind->dtype, stream);
    if (done != NULL && (token = array_from_node(done)) != NULL)
        result = array_from_node((Node *)Py_NewRef(node));
    if (result != NULL && PyList_SetItem(tokens, 0, Py_NewRef(token)) < 0)
        Py_CLEAR(result);
    Py_XDECREF(token);
    Py_XDECREF(sources);
    Py_XDECREF(node);
    Py_XDECREF(inputs);
    return result;
}

/* Makes a communication that comes after tokens[0], which becomes its own token, under the lock of the states. */
static PyObject *make_in_order(const Parts *parts, PyObject *tokens) {
    PyObject *token = REQUIRED(token);
    int is_locked = token == NULL ? -1 : ingot_try_lock_states();
    if (is_locked == 0) { /* another thread has it: wait */
        PyObject *taken = PyObject_CallMethodNoArgs(callbacks.state_lock, attribute_names.acquire);
        is_locked = taken == NULL ? -1 : 1;
        Py_XDECREF(taken);
    }
    if (is_locked < 0)
        return NULL;
    Token kind = {PyTuple_GET_ITEM(token, 0), PyTuple_GET_ITEM(token, 1), PyTuple_GET_ITEM(token, 2),
                  PyTuple_GET_ITEM(token, 3)};
    PyObject *result = make_after(parts, tokens, &kind);
    if (ingot_unlock_states() < 0)
        Py_CLEAR(result);
    return result;
}

static bool is_state(PyObject *tokens) {
    return PyList_Check(tokens) && PyList_GET_SIZE(tokens) == 1;
}

/* in_order(op, inputs, shape, dtype, stream, tokens): the communication that comes next */
static PyObject *in_order(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 6 || !PyTuple_Check(arguments[1]) || !PyTuple_Check(arguments[2]) || !is_state(arguments[5])) {
        PyErr_SetString(PyExc_TypeError, "in_order takes op, inputs, shape, dtype, stream, and the list of the token.");
        return NULL;
    }
    Parts parts = {arguments[0],
                   arguments[2],
                   arguments[3],
                   arguments[4],
                   &PyTuple_GET_ITEM(arguments[1], 0),
                   PyTuple_GET_SIZE(arguments[1])};
    return make_in_order(&parts, arguments[5]);
}

/* like_input(op, x, stream, tokens): the communication that comes next, with a result like x; None while a transform runs,
 * which may have tokens of its own */
static PyObject *like_input(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 4 || !is_array(arguments[1]) || !is_state(arguments[3])) {
        PyErr_SetString(PyExc_TypeError, "like_input takes an op, an array, a stream, and the list of the token.");
        return NULL;
    }
    if (ingot_is_tracing())
        Py_RETURN_NONE;
    Node *input = ((Array *)arguments[1])->node;
    Parts parts = {arguments[0], input->shape, input->dtype, arguments[2], &arguments[1], 1};
    return make_in_order(&parts, arguments[3]);
}

LOCKS_FAST_METHOD(in_order)
LOCKS_FAST_METHOD(like_input)

static PyMethodDef functions[] = {
    {"in_order", (PyCFunction)(void (*)(void))LOCKED(in_order), METH_FASTCALL,
     "in_order(op, inputs, shape, dtype, stream, tokens) -> array"},
    {"like_input", (PyCFunction)(void (*)(void))LOCKED(like_input), METH_FASTCALL,
     "like_input(op, x, stream, tokens) -> array, or None while a transform runs"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_order(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
