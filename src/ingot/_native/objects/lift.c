/* Lift: applies an elementwise op to arrays and Python scalars: converts, promotes and broadcasts them, then makes
 * the node. */
#include "native.h"
#include <assert.h>
#include <structmember.h>

PyTypeObject *Lift_Type;

#define MAX_OPERANDS 3

enum { PROMOTE, FLOATING, LOGICAL, SELECT }; /* how operand dtypes are promoted */
enum { SAME, BOOLEAN, REAL };                /* the result's dtype relative to the operands' */

typedef struct {
    PyObject_HEAD
    PyObject *op;
    PyObject *name;
    Py_ssize_t arity;
    int operands;
    int result;
    unsigned accepts;  /* bit i: the op takes dtype number i, after promotion */
    PyObject *refusal; /* the exception type for dtypes that the op rejects */
    vectorcallfunc vectorcall;
} Lift;

/* Cache of 0-d constants by value, so that the 2 in `x * 2` is built once. Nodes are immutable, so sharing is safe. */
#define SCALAR_SLOTS 512
static struct {
    uint64_t bits;
    int dtype, kind;
    Node *node;
} scalar_cache[SCALAR_SLOTS];

static Node *scalar_node(PyObject *value, Dtype *dtype) {
    uint64_t bits = 0;
    int kind = -1;
    if (PyFloat_CheckExact(value)) {
        double number = PyFloat_AS_DOUBLE(value);
        memcpy(&bits, &number, sizeof bits);
        kind = 0;
    } else if (PyLong_Check(value)) {
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        if (!overflow) {
            bits = (uint64_t)number;
            kind = PyBool_Check(value) ? 2 : 1;
        }
    }
    size_t slot = (size_t)((bits ^ (bits >> 29) ^ (bits >> 47)) * 31 + (unsigned)(dtype->number * 7 + kind)) % SCALAR_SLOTS;
    if (kind >= 0 && scalar_cache[slot].node != NULL && scalar_cache[slot].bits == bits &&
        scalar_cache[slot].dtype == dtype->number && scalar_cache[slot].kind == kind)
        return (Node *)Py_NewRef(scalar_cache[slot].node);
    if (REQUIRED(scalar) == NULL)
        return NULL;
    PyObject *made = PyObject_CallFunctionObjArgs(callbacks.scalar, value, (PyObject *)dtype, NULL);
    Node *node = made == NULL ? NULL : as_node(made);
    Py_XINCREF(node);
    Py_XDECREF(made);
    if (node != NULL && kind >= 0) {
        Node *old = scalar_cache[slot].node;
        scalar_cache[slot].bits = bits;
        scalar_cache[slot].dtype = dtype->number;
        scalar_cache[slot].kind = kind;
        scalar_cache[slot].node = (Node *)Py_NewRef(node);
        Py_XDECREF(old);
    }
    return node;
}

/* The dtype of a Python scalar among arrays of dtype `context` (NULL: among scalars only): scalars are weakly typed. */
static Dtype *scalar_dtype(PyObject *value, Dtype *context) {
    if (PyBool_Check(value))
        return dtype_table[BOOL];
    if (PyLong_Check(value)) {
        if (context != NULL && context->number != BOOL)
            return context;
        int overflow;
        long long number = PyLong_AsLongLongAndOverflow(value, &overflow);
        bool fits = !overflow && number >= INT32_MIN && number <= INT32_MAX;
        return dtype_table[fits ? INT32 : INT64];
    }
    if (PyFloat_Check(value))
        return context != NULL && dtype_is_inexact(context) ? context : dtype_table[FLOAT32];
    return dtype_table[COMPLEX64];
}

static bool is_scalar(PyObject *object) {
    return PyFloat_Check(object) || PyLong_Check(object) || PyComplex_Check(object);
}

/* Makes a node of `op` with one input. Steals the reference to `input`. */
static Node *unary_node(PyObject *op, Node *input, PyObject *shape, PyObject *dtype, PyObject *stream) {
    PyObject *inputs = op == NULL ? NULL : PyTuple_New(1);
    if (inputs == NULL) {
        Py_DECREF(input);
        return NULL;
    }
    PyTuple_SET_ITEM(inputs, 0, (PyObject *)input);
    Node *node = node_new(op, inputs, shape, dtype, stream);
    Py_DECREF(inputs);
    return node;
}

Node *cast_node(Node *input, Dtype *dtype, PyObject *stream) {
    static PyObject *casts[DTYPE_COUNT];
    if (input->dtype == (PyObject *)dtype)
        return input;
    if (casts[dtype->number] == NULL && REQUIRED(cast) != NULL) {
        PyObject *made = PyObject_CallOneArg(callbacks.cast, (PyObject *)dtype);
        if (casts[dtype->number] == NULL) /* else another thread was faster */
            casts[dtype->number] = made;
        else
            Py_XDECREF(made);
    }
    return unary_node(casts[dtype->number], input, input->shape, (PyObject *)dtype, stream);
}

#define BROADCAST_COUNT 256

/* Whether two tuples of ints are equal. Runs no Python. */
static bool same_lengths(PyObject *a, PyObject *b) {
    bool same = PyTuple_GET_SIZE(a) == PyTuple_GET_SIZE(b);
    for (Py_ssize_t i = 0; same && i < PyTuple_GET_SIZE(a); i++)
        same = PyLong_AsSsize_t(PyTuple_GET_ITEM(a, i)) == PyLong_AsSsize_t(PyTuple_GET_ITEM(b, i));
    return same;
}

/* Returns the op that broadcasts to a shape, a new reference. The most recent ones are cached: shapes recur, and a
 * graph of identical ops is recognised faster than one of equal ops (evaluate/whole_graph.c). */
static PyObject *broadcast_op(PyObject *shape) {
    static struct {
        PyObject *shape, *op;
    } known[BROADCAST_COUNT];
    if (REQUIRED(broadcast) == NULL)
        return NULL;
    size_t hash = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shape); i++) {
        PyObject *length = PyTuple_GET_ITEM(shape, i);
        if (!PyLong_CheckExact(length)) /* a symbolic dimension: comparing one adds a guard to the trace */
            return PyObject_CallOneArg(callbacks.broadcast, shape);
        hash = hash * 1000003u + (size_t)PyLong_AsSsize_t(length); /* lengths always fit */
    }
    size_t slot = (hash ^ hash >> 16) % BROADCAST_COUNT;
    if (known[slot].shape != NULL && same_lengths(known[slot].shape, shape))
        return Py_NewRef(known[slot].op);
    PyObject *op = PyObject_CallOneArg(callbacks.broadcast, shape);
    if (op != NULL) { /* both at once: letting go of the old ones may let other threads in */
        PyObject *old_shape = known[slot].shape, *old_op = known[slot].op;
        known[slot].shape = Py_NewRef(shape);
        known[slot].op = Py_NewRef(op);
        Py_XDECREF(old_shape);
        Py_XDECREF(old_op);
    }
    return op;
}

static Node *broadcast_node(Node *input, PyObject *shape, PyObject *stream) {
    PyObject *op = broadcast_op(shape);
    Node *node = unary_node(op, input, shape, input->dtype, stream);
    Py_XDECREF(op);
    return node;
}

/* 1 if equal, 0 if not, -1 on error. Shapes are nearly always the same object or have the same small ints. */
static int same_shape(PyObject *a, PyObject *b) {
    if (a == b)
        return 1;
    /* Tuple comparison compares items before lengths, and comparing symbolic dimensions adds guards to the trace. */
    return PyTuple_GET_SIZE(a) != PyTuple_GET_SIZE(b) ? 0 : PyObject_RichCompareBool(a, b, Py_EQ);
}

/* Whether the shorter shape is a suffix of the longer one, as when a bias is added to rows. */
static bool is_suffix(PyObject *longer, PyObject *shorter) {
    Py_ssize_t missing = PyTuple_GET_SIZE(longer) - PyTuple_GET_SIZE(shorter);
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(shorter); i++) {
        PyObject *a = PyTuple_GET_ITEM(longer, i + missing), *b = PyTuple_GET_ITEM(shorter, i);
        /* Symbolic dimensions are left to the general case: comparing them adds guards to the trace. */
        if (a != b && !(PyLong_CheckExact(a) && PyLong_CheckExact(b) && PyObject_RichCompareBool(a, b, Py_EQ) == 1))
            return false;
    }
    return true;
}

static PyObject *common_shape(Lift *self, Node **nodes, Py_ssize_t count) {
    PyObject *shape = nodes[0]->shape;
    bool need_general = false;
    for (Py_ssize_t i = 1; i < count; i++) {
        PyObject *other = nodes[i]->shape;
        int same = same_shape(shape, other);
        if (same < 0)
            return NULL;
        if (same || PyTuple_GET_SIZE(other) == 0)
            continue;
        bool longer = PyTuple_GET_SIZE(other) > PyTuple_GET_SIZE(shape);
        if (!is_suffix(longer ? other : shape, longer ? shape : other))
            need_general = true;
        else if (longer)
            shape = other;
    }
    if (!need_general)
        return Py_NewRef(shape);
    if (REQUIRED(broadcast_shapes) == NULL)
        return NULL;
    PyObject *arguments[MAX_OPERANDS + 1] = {self->name};
    for (Py_ssize_t i = 0; i < count; i++)
        arguments[i + 1] = nodes[i]->shape;
    return PyObject_Vectorcall(callbacks.broadcast_shapes, arguments, count + 1, NULL);
}

static int refuse_dtype(Lift *self, Dtype *dtype) {
    PyErr_Format(self->refusal, "[%S] does not take arrays of dtype %s: cast them with astype first.", self->name, dtype->name);
    return -1;
}

/* An array of another library takes the dtype of the first array among the operands, as in MLX. */
static PyObject *dtype_of_first_array(PyObject *const *operands, Py_ssize_t count) {
    for (Py_ssize_t i = 0; i < count; i++) {
        if (is_array(operands[i]))
            return ((Array *)operands[i])->node->dtype;
    }
    return Py_None;
}

/* The node of a non-scalar operand: an array's own, or that of the array it converts to. */
static Node *operand_node(Lift *self, PyObject *operand, PyObject *beside) {
    if (is_array(operand))
        return (Node *)Py_NewRef(((Array *)operand)->node);
    if (REQUIRED(coerce) == NULL)
        return NULL;
    PyObject *coerced = PyObject_CallFunctionObjArgs(callbacks.coerce, operand, beside, NULL);
    if (coerced == NULL)
        return NULL;
    Node *node = NULL;
    if (coerced == Py_NotImplemented)
        PyErr_Format(operand == Py_None ? PyExc_TypeError : PyExc_ValueError, "[%S] takes arrays and numbers, got %s.",
                     self->name, Py_TYPE(operand)->tp_name);
    else
        node = (Node *)Py_XNewRef(as_node(coerced));
    Py_DECREF(coerced);
    return node;
}

/* Fills `nodes` with the operands, converted to the dtype in which the op computes. On failure, releases all of
 * them. */
static int prepare(Lift *self, PyObject *const *operands, Py_ssize_t count, PyObject *stream, Node **nodes) {
    Dtype *context = NULL; /* the promoted dtype of the operands that are arrays */
    Py_ssize_t first = self->operands == SELECT ? 1 : 0;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (is_scalar(operands[i]))
            continue;
        PyObject *beside = Py_None;
        if (i >= first && !is_array(operands[i]))
            beside = dtype_of_first_array(operands + first, count - first);
        nodes[i] = operand_node(self, operands[i], beside);
        if (nodes[i] == NULL)
            return -1;
        if (i >= first) {
            Dtype *dtype = (Dtype *)nodes[i]->dtype;
            context = context == NULL ? dtype : dtype_promote(context, dtype);
        }
    }
    Dtype *work = context;
    for (Py_ssize_t i = 0; i < count; i++) {
        if (nodes[i] != NULL)
            continue;
        Dtype *dtype = scalar_dtype(operands[i], i >= first ? context : NULL);
        nodes[i] = scalar_node(operands[i], dtype);
        if (nodes[i] == NULL)
            return -1;
        if (i >= first)
            work = work == NULL ? dtype : dtype_promote(work, dtype);
    }
    assert(work != NULL); /* a selection has operands besides its condition */
    if (self->operands == FLOATING && !dtype_is_inexact(work))
        work = dtype_table[FLOAT32];
    if (self->operands == LOGICAL)
        work = dtype_table[BOOL];
    if (!(self->accepts >> work->number & 1))
        return refuse_dtype(self, work);
    for (Py_ssize_t i = 0; i < count; i++) {
        nodes[i] = cast_node(nodes[i], i < first ? dtype_table[BOOL] : work, stream);
        if (nodes[i] == NULL)
            return -1;
    }
    return 0;
}

static PyObject *result_dtype(Lift *self, Dtype *operand) {
    if (self->result == BOOLEAN)
        return (PyObject *)dtype_table[BOOL];
    if (self->result == REAL && operand->number == COMPLEX64)
        return (PyObject *)dtype_table[FLOAT32];
    return (PyObject *)operand;
}

PyObject *lift_apply(PyObject *object, PyObject *const *operands, Py_ssize_t count, PyObject *requested_stream) {
    Lift *self = (Lift *)object;
    if (count != self->arity) {
        PyErr_Format(PyExc_TypeError, "[%S] takes %zd arrays, got %zd.", self->name, self->arity, count);
        return NULL;
    }
    assert(count >= 1 && count <= MAX_OPERANDS); /* checked by lift_new */
    PyObject *stream = resolve_stream(requested_stream);
    if (stream == NULL)
        return NULL;
    Node *nodes[MAX_OPERANDS] = {NULL};
    PyObject *shape = NULL, *inputs = NULL;
    Node *result = NULL;
    if (prepare(self, operands, count, stream, nodes) < 0)
        goto done;
    shape = common_shape(self, nodes, count);
    if (shape == NULL)
        goto done;
    for (Py_ssize_t i = 0; i < count; i++) {
        int same = same_shape(nodes[i]->shape, shape);
        if (same == 0)
            nodes[i] = broadcast_node(nodes[i], shape, stream);
        if (same < 0 || nodes[i] == NULL)
            goto done;
    }
    PyObject *dtype = result_dtype(self, (Dtype *)nodes[count - 1]->dtype);
    inputs = PyTuple_New(count);
    if (inputs == NULL)
        goto done;
    for (Py_ssize_t i = 0; i < count; i++) {
        PyTuple_SET_ITEM(inputs, i, (PyObject *)nodes[i]);
        nodes[i] = NULL;
    }
    result = node_new(self->op, inputs, shape, dtype, stream);
done:
    for (Py_ssize_t i = 0; i < count; i++)
        Py_XDECREF(nodes[i]);
    Py_XDECREF(shape);
    Py_XDECREF(inputs);
    return result == NULL ? NULL : array_from_node(result);
}

/* lift(*operands[, stream]) */
static PyObject *call_lift(PyObject *self, PyObject *const *arguments, size_t flagged, PyObject *keywords) {
    Py_ssize_t count = PyVectorcall_NARGS(flagged);
    Py_ssize_t arity = ((Lift *)self)->arity;
    if (keywords != NULL && PyTuple_GET_SIZE(keywords) > 0) {
        PyErr_SetString(PyExc_TypeError, "a lifted op takes no keyword arguments.");
        return NULL;
    }
    if (count == arity + 1)
        return lift_apply(self, arguments, arity, arguments[arity]);
    return lift_apply(self, arguments, count, NULL);
}

static PyObject *lift_call(PyObject *self, PyObject *const *arguments, size_t flagged, PyObject *keywords) {
    PyObject *result;
    ENGINE_BEGIN
    result = call_lift(self, arguments, flagged, keywords);
    ENGINE_END
    return result;
}

static int named_choice(const char *what, const char *value, const char *const *choices) {
    for (int i = 0; choices[i] != NULL; i++) {
        if (strcmp(value, choices[i]) == 0)
            return i;
    }
    PyErr_Format(PyExc_ValueError, "%s cannot be %s.", what, value);
    return -1;
}

/* Lift(op, name, arity, operands, result, accepts, refusal) */
static PyObject *lift_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    static const char *const operand_choices[] = {"promote", "floating", "logical", "select", NULL};
    static const char *const result_choices[] = {"same", "bool", "real", NULL};
    PyObject *op, *name, *refusal;
    Py_ssize_t arity;
    const char *operands, *result;
    unsigned accepts;
    if (!PyArg_ParseTuple(arguments, "OUnssIO:Lift", &op, &name, &arity, &operands, &result, &accepts, &refusal))
        return NULL;
    if (arity < 1 || arity > MAX_OPERANDS) {
        PyErr_Format(PyExc_ValueError, "a lifted op takes 1 to %d arrays, not %zd.", MAX_OPERANDS, arity);
        return NULL;
    }
    int operand_kind = named_choice("operands", operands, operand_choices);
    int result_kind = operand_kind < 0 ? -1 : named_choice("result", result, result_choices);
    if (result_kind < 0)
        return NULL;
    Lift *self = (Lift *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->op = Py_NewRef(op);
    self->name = Py_NewRef(name);
    self->arity = arity;
    self->operands = operand_kind;
    self->result = result_kind;
    self->accepts = accepts;
    self->refusal = Py_NewRef(refusal);
    self->vectorcall = lift_call;
    return (PyObject *)self;
}

static void lift_dealloc(Lift *self) {
    Py_XDECREF(self->op);
    Py_XDECREF(self->name);
    Py_XDECREF(self->refusal);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* result_dtype(dtype) -> the dtype of the result if the last operand has that dtype */
static PyObject *lift_result_dtype(Lift *self, PyObject *dtype) {
    if (!Py_IS_TYPE(dtype, Dtype_Type)) {
        PyErr_SetString(PyExc_TypeError, "result_dtype takes a Dtype.");
        return NULL;
    }
    return Py_NewRef(result_dtype(self, (Dtype *)dtype));
}

static PyMethodDef methods[] = {
    {"result_dtype", (PyCFunction)lift_result_dtype, METH_O,
     "result_dtype(dtype) -> the dtype of results whose last operand has that one"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"op", T_OBJECT_EX, offsetof(Lift, op), READONLY, "The op that is applied."},
    {"__vectorcalloffset__", T_PYSSIZET, offsetof(Lift, vectorcall), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, lift_new},
    {Py_tp_dealloc, lift_dealloc},
    {Py_tp_call, PyVectorcall_Call},
    {Py_tp_members, members},
    {Py_tp_methods, methods},
    {Py_tp_doc, "Applies an elementwise op to arrays and Python scalars."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.Lift",
    .basicsize = sizeof(Lift),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_VECTORCALL,
    .slots = slots,
};

int ingot_add_lift(PyObject *module) {
    Lift_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    return Lift_Type == NULL ? -1 : PyModule_AddObjectRef(module, "Lift", (PyObject *)Lift_Type);
}
