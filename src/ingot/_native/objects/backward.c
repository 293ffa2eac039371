/* The hot paths of the transforms: marking the arrays that a transform follows, and the traversal of reverse mode. */
#include "native.h"
#include "objects/depth_first.h"

typedef struct {
    uint64_t leaf;      /* the mark of the leaves; visited nodes have a greater one */
    uint64_t dependent; /* the mark of nodes that depend on a leaf */
} Marks;

static bool is_outside(Node *node, const void *marks) {
    return node->mark >= ((const Marks *)marks)->leaf || !node->tracer || node->inputs == NULL;
}

static bool has_inputs(Node *Py_UNUSED(node), const void *Py_UNUSED(marks)) {
    return true; /* is_outside has rejected nodes without inputs */
}

static bool depends_on_leaves(Node *node, const void *context) {
    const Marks *marks = context;
    for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(node->inputs); k++) {
        uint64_t mark = ((Node *)PyTuple_GET_ITEM(node->inputs, k))->mark;
        if (mark == marks->leaf || mark == marks->dependent) {
            node->mark = marks->dependent;
            return true;
        }
    }
    return false;
}

/* Collects the nodes that depend on the leaves and that the outputs need, leaves excluded, in topological order.
 * Only tracers depend on leaves, so nothing else is visited. */
static int order_between(NodeList *outputs, NodeList *leaves, NodeList *order) {
    Marks marks;
    marks.leaf = next_mark();
    marks.dependent = next_mark();
    for (Py_ssize_t i = 0; i < leaves->count; i++)
        leaves->items[i]->mark = marks.leaf;
    return depth_first(outputs->items, outputs->count, (Traversal){is_outside, has_inputs, depends_on_leaves}, &marks, order);
}

/* between(outputs, leaves) -> list of the nodes on paths from the leaves to the outputs */
static PyObject *between(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2) {
        PyErr_SetString(PyExc_TypeError, "between takes outputs and leaves.");
        return NULL;
    }
    NodeList outputs = {0}, leaves = {0}, order = {0};
    PyObject *list = NULL;
    if (node_list_collect(arguments[0], &outputs) == 0 && node_list_collect(arguments[1], &leaves) == 0 &&
        order_between(&outputs, &leaves, &order) == 0)
        list = PyList_New(order.count);
    for (Py_ssize_t i = 0; list != NULL && i < order.count; i++)
        PyList_SET_ITEM(list, i, Py_NewRef((PyObject *)order.items[i]));
    node_list_release(&order);
    node_list_release(&leaves);
    node_list_release(&outputs);
    return list;
}

/* One node of the traversal, with references taken up front: another thread may evaluate and detach the node
 * meanwhile. */
typedef struct {
    PyObject *op;
    PyObject *inputs;
    Py_ssize_t first_slot; /* index of the first of its inputs in `Pullback.input_slots` */
} Step;

/* Each leaf and each node of the traversal has a slot for its cotangent: an array or, for a node with several
 * outputs, a list with one cotangent per output (None where there is none). */
typedef struct {
    NodeList leaves, order;
    Step *steps;             /* one per node in `order` */
    PyObject **slots;        /* leaves first, then the nodes in `order`; NULL until a cotangent arrives */
    Py_ssize_t *input_slots; /* -1 for inputs that need no cotangent */
} Pullback;

static void pullback_clear(Pullback *pullback) {
    Py_ssize_t slot_count = pullback->leaves.count + pullback->order.count;
    for (Py_ssize_t i = 0; pullback->slots != NULL && i < slot_count; i++)
        Py_XDECREF(pullback->slots[i]);
    for (Py_ssize_t i = 0; pullback->steps != NULL && i < pullback->order.count; i++) {
        Py_XDECREF(pullback->steps[i].op);
        Py_XDECREF(pullback->steps[i].inputs);
    }
    PyMem_Free(pullback->slots);
    PyMem_Free(pullback->steps);
    PyMem_Free(pullback->input_slots);
    node_list_release(&pullback->order);
    node_list_release(&pullback->leaves);
}

/* Assigns the slots. While this runs, a node's mark is `base` plus its slot. */
static int pullback_prepare(Pullback *pullback, NodeList *outputs, Py_ssize_t *output_slots) {
    if (order_between(outputs, &pullback->leaves, &pullback->order) < 0)
        return -1;
    Py_ssize_t slot_count = pullback->leaves.count + pullback->order.count;
    Py_ssize_t input_count = 0;
    uint64_t base = next_mark();
    for (Py_ssize_t i = 1; i < slot_count; i++)
        next_mark();
    for (Py_ssize_t i = 0; i < pullback->leaves.count; i++)
        pullback->leaves.items[i]->mark = base + (uint64_t)i;
    for (Py_ssize_t i = 0; i < pullback->order.count; i++) {
        pullback->order.items[i]->mark = base + (uint64_t)(pullback->leaves.count + i);
        input_count += PyTuple_GET_SIZE(pullback->order.items[i]->inputs);
    }
    pullback->slots = PyMem_Calloc((size_t)slot_count + 1, sizeof *pullback->slots);
    pullback->steps = PyMem_Calloc((size_t)pullback->order.count + 1, sizeof *pullback->steps);
    pullback->input_slots = PyMem_Calloc((size_t)input_count + 1, sizeof *pullback->input_slots);
    if (pullback->slots == NULL || pullback->steps == NULL || pullback->input_slots == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    Py_ssize_t next = 0;
    for (Py_ssize_t i = 0; i < pullback->order.count; i++) {
        Node *node = pullback->order.items[i];
        pullback->steps[i] = (Step){Py_NewRef(node->op), Py_NewRef(node->inputs), next};
        for (Py_ssize_t k = 0; k < PyTuple_GET_SIZE(node->inputs); k++) {
            uint64_t mark = ((Node *)PyTuple_GET_ITEM(node->inputs, k))->mark;
            pullback->input_slots[next++] = mark >= base ? (Py_ssize_t)(mark - base) : -1;
        }
    }
    for (Py_ssize_t i = 0; i < outputs->count; i++) {
        uint64_t mark = outputs->items[i]->mark;
        output_slots[i] = mark >= base ? (Py_ssize_t)(mark - base) : -1;
    }
    return 0;
}

/* The sum of two cotangents if the second is zero but for a slice and Python finds a better form than adding them; None
 * otherwise. A new reference. */
static PyObject *sum_of_slices(PyObject *earlier, PyObject *share) {
    Node *node = callbacks.update_type != NULL && is_array(earlier) ? as_node(share) : NULL;
    if (node == NULL || node->op == NULL || (PyObject *)Py_TYPE(node->op) != callbacks.update_type)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    PyObject *arguments[2] = {earlier, share};
    return PyObject_Vectorcall(callbacks.sum_of_slices, arguments, 2, NULL);
}

/* Adds a contribution to a slot. Steals the reference to `share`. */
static int accumulate(PyObject **slot, PyObject *share) {
    if (*slot == NULL) {
        *slot = share;
        return 0;
    }
    PyObject *sum = sum_of_slices(*slot, share);
    if (sum == Py_None) {
        Py_DECREF(sum);
        sum = PyNumber_Add(*slot, share);
    }
    Py_DECREF(share);
    if (sum == NULL)
        return -1;
    Py_SETREF(*slot, sum);
    return 0;
}

/* Stores the cotangent of one output with the node that has several outputs. Steals the reference to `cotangent`. */
static int hand_on(Pullback *pullback, Step *step, PyObject *cotangent) {
    Node *whole = (Node *)PyTuple_GET_ITEM(step->inputs, 0);
    PyObject **slot = &pullback->slots[pullback->input_slots[step->first_slot]];
    if (*slot == NULL) {
        Py_ssize_t count = PyTuple_GET_SIZE(whole->shape);
        *slot = PyList_New(count);
        for (Py_ssize_t i = 0; *slot != NULL && i < count; i++)
            PyList_SET_ITEM(*slot, i, Py_NewRef(Py_None));
    }
    PyObject *number = *slot == NULL ? NULL : PyObject_GetAttr(step->op, attribute_names.index);
    Py_ssize_t index = number == NULL ? -1 : PyLong_AsSsize_t(number);
    Py_XDECREF(number);
    if (PyErr_Occurred()) {
        Py_DECREF(cotangent);
        return -1;
    }
    PyObject *earlier = Py_NewRef(PyList_GET_ITEM(*slot, index));
    if (earlier == Py_None)
        Py_CLEAR(earlier);
    if (accumulate(&earlier, cotangent) < 0) {
        Py_XDECREF(earlier);
        return -1;
    }
    return PyList_SetItem(*slot, index, earlier);
}

/* Checks what a rule returned for one input and converts it to an array of the input's shape and dtype; None if
 * there is no cotangent. Rules of integers may return fractions, which are truncated. Returns a new reference. */
static PyObject *checked_share(PyObject *op, PyObject *share, Node *source) {
    if (is_array(share) || share == Py_None)
        Py_INCREF(share);
    else
        share = PyObject_CallNoArgs(share);
    if (share == NULL || share == Py_None)
        return share;
    Node *node = as_node(share);
    if (node != NULL && node->dtype != source->dtype && !dtype_is_inexact((Dtype *)source->dtype)) {
        node = cast_node((Node *)Py_NewRef(node), (Dtype *)source->dtype, resolve_stream(NULL));
        Py_SETREF(share, node == NULL ? NULL : array_from_node(node));
        if (share == NULL)
            return NULL;
    }
    int same = node == NULL ? -1 : node->dtype == source->dtype;
    if (same == 1 && node->shape != source->shape)
        same = PyObject_RichCompareBool(node->shape, source->shape, Py_EQ);
    if (same == 0)
        PyErr_Format(PyExc_RuntimeError,
                     "the vjp rule of %R returned a cotangent of shape %R and dtype %S for an input of shape %R and dtype "
                     "%S; this is a bug in ingot.",
                     op, node->shape, node->dtype, source->shape, source->dtype);
    if (same != 1)
        Py_CLEAR(share);
    return share;
}

static int distribute(Pullback *pullback, Step *step, PyObject *shares) {
    Py_ssize_t count = PyTuple_GET_SIZE(step->inputs);
    if (!PyTuple_Check(shares) || PyTuple_GET_SIZE(shares) != count) {
        PyErr_Format(PyExc_RuntimeError, "the vjp rule of %R must return a tuple of %zd; this is a bug in ingot.", step->op,
                     count);
        return -1;
    }
    for (Py_ssize_t k = 0; k < count; k++) {
        Py_ssize_t slot = pullback->input_slots[step->first_slot + k];
        if (slot < 0)
            continue;
        PyObject *share = checked_share(step->op, PyTuple_GET_ITEM(shares, k), (Node *)PyTuple_GET_ITEM(step->inputs, k));
        if (share == NULL)
            return -1;
        if (share == Py_None)
            Py_DECREF(share);
        else if (accumulate(&pullback->slots[slot], share) < 0)
            return -1;
    }
    return 0;
}

#define MAX_FAST_INPUTS 8

/* Calls op.vjp(cotangent, out, *inputs), or op.partials(out, *inputs) if `cotangent` is NULL. */
static PyObject *call_rule(Step *step, PyObject *cotangent, PyObject *out) {
    PyObject *rule = cotangent != NULL ? attribute_names.vjp : attribute_names.partials;
    Py_ssize_t count = PyTuple_GET_SIZE(step->inputs);
    PyObject *fast[MAX_FAST_INPUTS + 3];
    PyObject **arguments = count <= MAX_FAST_INPUTS ? fast : PyMem_Malloc((size_t)(count + 3) * sizeof *arguments);
    if (arguments == NULL)
        return PyErr_NoMemory();
    Py_ssize_t used = 0;
    arguments[used++] = step->op;
    if (cotangent != NULL)
        arguments[used++] = cotangent;
    arguments[used++] = out;
    Py_ssize_t ready = 0;
    for (; ready < count; ready++) {
        PyObject *input = array_from_node((Node *)Py_NewRef(PyTuple_GET_ITEM(step->inputs, ready)));
        if (input == NULL)
            break;
        arguments[used + ready] = input;
    }
    PyObject *result = NULL;
    ENGINE_PAUSE
    if (ready == count)
        result = PyObject_VectorcallMethod(rule, arguments, (size_t)(used + count), NULL);
    ENGINE_RESUME
    for (Py_ssize_t i = 0; i < ready; i++)
        Py_DECREF(arguments[used + i]);
    if (arguments != fast)
        PyMem_Free(arguments);
    return result;
}

/* Whether the op defines only its partial derivatives: then those of inputs that need no cotangent are never built. */
static int is_stated_by_partials(PyObject *op) {
    PyObject *rule = PyObject_GetAttr((PyObject *)Py_TYPE(op), attribute_names.vjp);
    Py_XDECREF(rule);
    return rule == NULL ? -1 : rule == callbacks.elementwise_vjp;
}

/* vector * partial, or vector * conj(partial), for a partial in the form that `Elementwise.partials` returns.
 * Returns a new reference; None stands for zero. */
static PyObject *scale_by_partial(PyObject *vector, PyObject *partial, bool conjugated) {
    if (partial == Py_None)
        return Py_NewRef(Py_None);
    if (PyLong_CheckExact(partial))
        return PyLong_AsLong(partial) == 1 ? Py_NewRef(vector) : PyNumber_Negative(vector);
    PyObject *factor = is_array(partial) ? Py_NewRef(partial) : PyObject_CallNoArgs(partial);
    bool is_complex =
        factor != NULL && is_array(factor) && ((Array *)factor)->node->dtype == (PyObject *)dtype_table[COMPLEX64];
    if (conjugated && is_complex) {
        PyObject *conjugate = REQUIRED(conjugate);
        Py_SETREF(factor, conjugate == NULL ? NULL : PyObject_CallOneArg(conjugate, factor));
    }
    PyObject *product = factor == NULL ? NULL : PyNumber_Multiply(vector, factor);
    Py_XDECREF(factor);
    return product;
}

/* scaled_by_partial(vector, partial, conjugated) -> array or None */
static PyObject *scaled_by_partial(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3 || !is_array(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "scaled_by_partial takes an array, a partial derivative and a flag.");
        return NULL;
    }
    return scale_by_partial(arguments[0], arguments[1], arguments[2] == Py_True);
}

/* Replaces the partials that are needed by their products with the cotangent. Returns a new reference. */
static PyObject *shares_of_partials(Pullback *pullback, Step *step, PyObject *cotangent, PyObject *out) {
    PyObject *partials = call_rule(step, NULL, out);
    if (partials == NULL || !PyTuple_Check(partials) || PyTuple_GET_SIZE(partials) != PyTuple_GET_SIZE(step->inputs))
        return partials; /* the caller raises */
    PyObject *shares = PyTuple_New(PyTuple_GET_SIZE(partials));
    for (Py_ssize_t k = 0; shares != NULL && k < PyTuple_GET_SIZE(partials); k++) {
        bool needed = pullback->input_slots[step->first_slot + k] >= 0;
        PyObject *share = needed ? scale_by_partial(cotangent, PyTuple_GET_ITEM(partials, k), true) : Py_NewRef(Py_None);
        if (share == NULL)
            Py_CLEAR(shares);
        else
            PyTuple_SET_ITEM(shares, k, share);
    }
    Py_DECREF(partials);
    return shares;
}

/* Propagates the cotangent of one node to its inputs. Returns 0, or -1 on error. */
static int visit_node(Pullback *pullback, Step *step, Node *node, PyObject *cotangent) {
    PyObject *out = PyList_Check(cotangent) ? PyObject_CallOneArg(callbacks.outputs_of, (PyObject *)node)
                                            : array_from_node((Node *)Py_NewRef(node));
    PyObject *shares = NULL;
    int by_partials = out == NULL ? -1 : is_stated_by_partials(step->op);
    if (by_partials >= 0)
        shares = by_partials ? shares_of_partials(pullback, step, cotangent, out) : call_rule(step, cotangent, out);
    Py_XDECREF(out);
    int status = shares == NULL ? -1 : distribute(pullback, step, shares);
    Py_XDECREF(shares);
    return status;
}

static int traverse_back(Pullback *pullback) {
    if (REQUIRED(output_type) == NULL || REQUIRED(outputs_of) == NULL)
        return -1;
    for (Py_ssize_t i = pullback->order.count - 1; i >= 0; i--) {
        PyObject **slot = &pullback->slots[pullback->leaves.count + i];
        PyObject *cotangent = *slot;
        if (cotangent == NULL)
            continue;
        *slot = NULL;
        Step *step = &pullback->steps[i];
        Node *node = pullback->order.items[i];
        if (Py_IS_TYPE(step->op, (PyTypeObject *)callbacks.output_type)) {
            if (hand_on(pullback, step, cotangent) < 0)
                return -1;
            continue;
        }
        Node *before = ingot_take_line_of(node);
        int status = visit_node(pullback, step, node, cotangent);
        Py_XDECREF(ingot_take_line_of(before));
        Py_XDECREF(before);
        Py_DECREF(cotangent);
        if (status < 0)
            return -1;
        if ((i & 0x3ff) == 0 && PyErr_CheckSignals() < 0)
            return -1;
    }
    return 0;
}

/* Gives each leaf its own handle: several leaves may share a cotangent, and users may assign to it in place. */
static PyObject *leaf_cotangents(Pullback *pullback) {
    PyObject *found = PyList_New(pullback->leaves.count);
    for (Py_ssize_t i = 0; found != NULL && i < pullback->leaves.count; i++) {
        PyObject *slot = pullback->slots[i];
        PyObject *own = slot == NULL ? Py_NewRef(Py_None) : array_from_node((Node *)Py_NewRef(((Array *)slot)->node));
        if (own == NULL)
            Py_CLEAR(found);
        else
            PyList_SET_ITEM(found, i, own);
    }
    return found;
}

/* backward(outputs, cotangents, leaves) -> list of the leaves' cotangents, None where there is none. A cotangent may
 * be None. Leaves must be distinct nodes. */
static PyObject *backward(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 3 || !PyList_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "backward takes outputs, cotangents and leaves.");
        return NULL;
    }
    Pullback pullback = {0};
    NodeList outputs = {0};
    PyObject *result = NULL;
    Py_ssize_t *output_slots = NULL;
    int status = node_list_collect(arguments[0], &outputs) < 0 ? -1 : node_list_collect(arguments[2], &pullback.leaves);
    if (status == 0) {
        output_slots = PyMem_Calloc((size_t)outputs.count + 1, sizeof *output_slots);
        if (output_slots == NULL) {
            PyErr_NoMemory();
            status = -1;
        } else {
            status = pullback_prepare(&pullback, &outputs, output_slots);
        }
    }
    for (Py_ssize_t i = 0; status == 0 && i < outputs.count && i < PyList_GET_SIZE(arguments[1]); i++) {
        PyObject *cotangent = PyList_GET_ITEM(arguments[1], i);
        if (output_slots[i] >= 0 && cotangent != Py_None)
            status = accumulate(&pullback.slots[output_slots[i]], Py_NewRef(cotangent));
    }
    if (status == 0)
        status = traverse_back(&pullback);
    if (status == 0)
        result = leaf_cotangents(&pullback);
    PyMem_Free(output_slots);
    pullback_clear(&pullback);
    node_list_release(&outputs);
    return result;
}

/* follow(op, arrays) -> list of arrays with the same values, each a new node that is marked as a tracer */
static PyObject *follow(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !PyList_Check(arguments[1])) {
        PyErr_SetString(PyExc_TypeError, "follow takes an op and a list of arrays.");
        return NULL;
    }
    Py_ssize_t length = PyList_GET_SIZE(arguments[1]);
    PyObject *stream = resolve_stream(NULL);
    PyObject *list = PyList_New(length);
    for (Py_ssize_t i = 0; list != NULL && i < length; i++) {
        Node *value = as_node(PyList_GET_ITEM(arguments[1], i));
        PyObject *inputs = value == NULL ? NULL : PyTuple_Pack(1, (PyObject *)value);
        Node *node = inputs == NULL ? NULL : node_new(arguments[0], inputs, value->shape, value->dtype, stream);
        Py_XDECREF(inputs);
        if (node != NULL)
            node->tracer = true;
        PyObject *leaf = node == NULL ? NULL : array_from_node(node);
        if (leaf == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, leaf);
    }
    return list;
}

/* redirect(node, op, inputs) -> bool: makes `op` of `inputs`, which must give the same values, the definition of the
 * node. Returns False and changes nothing if the node is evaluated or being evaluated. */
static PyObject *redirect(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Node *node;
    PyObject *op, *inputs;
    if (!PyArg_ParseTuple(arguments, "O!OO!:redirect", Node_Type, &node, &op, &PyTuple_Type, &inputs))
        return NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(inputs); i++) {
        if (!Py_IS_TYPE(PyTuple_GET_ITEM(inputs, i), Node_Type)) {
            PyErr_SetString(PyExc_TypeError, "redirect takes nodes as inputs.");
            return NULL;
        }
    }
    if (node->op == NULL || node->data != NULL || node->running || node->pending != NULL || node->suspended != NULL)
        Py_RETURN_FALSE;
    Py_SETREF(node->op, Py_NewRef(op));
    Py_XSETREF(node->inputs, Py_NewRef(inputs));
    Py_RETURN_TRUE;
}

LOCKS_FAST_METHOD(scaled_by_partial)
LOCKS_FAST_METHOD(between)
LOCKS_FAST_METHOD(backward)
LOCKS_FAST_METHOD(follow)
LOCKS_METHOD(redirect)

static PyMethodDef functions[] = {
    {"scaled_by_partial", (PyCFunction)(void (*)(void))LOCKED(scaled_by_partial), METH_FASTCALL,
     "scaled_by_partial(vector, partial, conjugated) -> the product, as Elementwise.partials states partials; or None"},
    {"between", (PyCFunction)(void (*)(void))LOCKED(between), METH_FASTCALL,
     "between(outputs, leaves) -> nodes on paths from the leaves to the outputs, inputs first"},
    {"backward", (PyCFunction)(void (*)(void))LOCKED(backward), METH_FASTCALL,
     "backward(outputs, cotangents, leaves) -> the leaves' cotangents"},
    {"follow", (PyCFunction)(void (*)(void))LOCKED(follow), METH_FASTCALL,
     "follow(op, arrays) -> tracers with the same values"},
    {"redirect", LOCKED(redirect), METH_VARARGS, "redirect(node, op, inputs): lets another op compute the value of a node"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_backward(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
