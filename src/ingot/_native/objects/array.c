/* array: the handle that users hold, and its operators. core/array.py attaches all other methods. */
#include "native.h"
#include <structmember.h>

PyTypeObject *Array_Type;

/* The functions behind the operators, registered by the modules of ops/ through set_operator: Lift objects or any
 * callable. */
enum {
    ADD,
    SUBTRACT,
    MULTIPLY,
    TRUE_DIVIDE,
    FLOOR_DIVIDE,
    REMAINDER,
    DIVMOD,
    POWER,
    MATMUL,
    AND,
    OR,
    XOR,
    LEFT_SHIFT,
    RIGHT_SHIFT,
    LESS,
    LESS_EQUAL,
    EQUAL,
    NOT_EQUAL,
    GREATER,
    GREATER_EQUAL,
    NEGATIVE,
    ABSOLUTE,
    INVERT,
    OPERATOR_COUNT
};

static const char *const operator_names[OPERATOR_COUNT] = {
    "add",    "subtract",  "multiply", "true_divide",   "floor_divide", "remainder",   "divmod", "power",
    "matmul", "and",       "or",       "xor",           "left_shift",   "right_shift", "less",   "less_equal",
    "equal",  "not_equal", "greater",  "greater_equal", "negative",     "absolute",    "invert",
};

static PyObject *operators[OPERATOR_COUNT];

PyObject *array_from_node(Node *node) {
    Array *array = (Array *)Array_Type->tp_alloc(Array_Type, 0);
    if (array == NULL) {
        Py_DECREF(node);
        return NULL;
    }
    array->node = node;
    return (PyObject *)array;
}

/* Replaces the error of a keyword that the constructor does not have by one with a hint. Returns NULL. */
static PyObject *keywords_explained(PyObject *keywords) {
    if (keywords == NULL || callbacks.keyword_refused == NULL)
        return NULL;
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *known = PyObject_CallOneArg(callbacks.keyword_refused, keywords);
    if (known == NULL) {
        Py_XDECREF(type);
        Py_XDECREF(value);
        Py_XDECREF(traceback);
        ingot_shorten_traceback();
        return NULL;
    }
    Py_DECREF(known);
    PyErr_Restore(type, value, traceback);
    return NULL;
}

static PyObject *array_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"val", "dtype", NULL};
    PyObject *value, *dtype = Py_None;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O|O:array", names, &value, &dtype))
        return keywords_explained(keywords);
    if (REQUIRED(construct) == NULL)
        return NULL;
    PyObject *made = PyObject_CallFunctionObjArgs(callbacks.construct, value, dtype, NULL);
    if (made == NULL) {
        ingot_shorten_traceback();
        return NULL;
    }
    Node *node = as_node(made);
    Array *self = node == NULL ? NULL : (Array *)type->tp_alloc(type, 0);
    if (self != NULL)
        self->node = (Node *)Py_NewRef(node);
    Py_DECREF(made);
    return (PyObject *)self;
}

static void array_dealloc(Array *self) {
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    Py_XDECREF(self->node);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static bool is_operand(PyObject *object) {
    return is_array(object) || PyFloat_Check(object) || PyLong_Check(object) || PyComplex_Check(object);
}

/* Converts an operand of an operator to an array; returns NULL without an error if it cannot be converted. An array
 * of another library takes the dtype of `beside`. */
static PyObject *operand(PyObject *object, PyObject *beside) {
    if (is_operand(object))
        return Py_NewRef(object);
    if (REQUIRED(coerce) == NULL)
        return NULL;
    PyObject *dtype = is_array(beside) ? ((Array *)beside)->node->dtype : Py_None;
    PyObject *coerced = PyObject_CallFunctionObjArgs(callbacks.coerce, object, dtype, NULL);
    if (coerced == Py_NotImplemented)
        Py_CLEAR(coerced);
    return coerced;
}

static PyObject *call_operator(int which, PyObject *left, PyObject *right) {
    PyObject *function = operators[which];
    if (function == NULL)
        return ingot_missing_callback(operator_names[which]);
    PyObject *operands[2] = {left, right};
    if (Py_IS_TYPE(function, Lift_Type))
        return lift_apply(function, operands, right == NULL ? 1 : 2, NULL);
    return PyObject_Vectorcall(function, operands, right == NULL ? 1 : 2, NULL);
}

static PyObject *apply_operator(int which, PyObject *left, PyObject *right) {
    if (is_operand(left) && is_operand(right))
        return call_operator(which, left, right);
    PyObject *result = NULL;
    PyObject *a = operand(left, right);
    PyObject *b = a == NULL ? NULL : operand(right, left);
    if (a != NULL && b != NULL)
        result = call_operator(which, a, b);
    else if (!PyErr_Occurred() && (which == EQUAL || which == NOT_EQUAL))
        result = PyBool_FromLong(which == NOT_EQUAL); /* an array never equals, say, a string or None */
    else if (!PyErr_Occurred() && REQUIRED(operand_error) != NULL)
        result = PyObject_CallFunction(callbacks.operand_error, "sOO", operator_names[which], left, right);
    Py_XDECREF(a);
    Py_XDECREF(b);
    return result;
}

static PyObject *binary(int which, PyObject *left, PyObject *right) {
    PyObject *result;
    ENGINE_BEGIN
    result = apply_operator(which, left, right);
    if (result == NULL)
        ingot_shorten_traceback();
    ENGINE_END
    return result;
}

/* Lets an array refer to another node, whose reference it steals. */
void array_point_to(PyObject *array, Node *node) {
    Node *old;
    ENGINE_BEGIN
    old = ((Array *)array)->node;
    ((Array *)array)->node = node;
    ENGINE_END
    Py_DECREF(old);
}

/* `a += b` re-points the handle, so every holder of it sees the new value; graphs already built keep the old node. */
static PyObject *in_place(int which, PyObject *self, PyObject *other) {
    PyObject *result = binary(which, self, other);
    if (result == NULL || !is_array(result))
        return result;
    array_point_to(self, (Node *)Py_NewRef(((Array *)result)->node)); /* no other thread has the result */
    Py_DECREF(result);
    return Py_NewRef(self);
}

#define BINARY(name, which)                                   \
    static PyObject *array_##name(PyObject *a, PyObject *b) { \
        return binary(which, a, b);                           \
    }
#define BINARY_IN_PLACE(name, which)                                   \
    BINARY(name, which)                                                \
    static PyObject *array_in_place_##name(PyObject *a, PyObject *b) { \
        return in_place(which, a, b);                                  \
    }
#define UNARY(name, which)                                   \
    static PyObject *array_##name(PyObject *a) {             \
        PyObject *result;                                    \
        ENGINE_BEGIN result = call_operator(which, a, NULL); \
        ENGINE_END return result;                            \
    }

BINARY_IN_PLACE(add, ADD)
BINARY_IN_PLACE(subtract, SUBTRACT)
BINARY_IN_PLACE(multiply, MULTIPLY)
BINARY(true_divide, TRUE_DIVIDE)
BINARY_IN_PLACE(floor_divide, FLOOR_DIVIDE)
BINARY_IN_PLACE(remainder, REMAINDER)
BINARY_IN_PLACE(matmul, MATMUL)
BINARY_IN_PLACE(and, AND)
BINARY_IN_PLACE(or, OR)
BINARY_IN_PLACE(xor, XOR)
BINARY_IN_PLACE(left_shift, LEFT_SHIFT)
BINARY_IN_PLACE(right_shift, RIGHT_SHIFT)
BINARY(divmod, DIVMOD)
UNARY(negative, NEGATIVE)
UNARY(absolute, ABSOLUTE)
UNARY(invert, INVERT)

static PyObject *array_in_place_true_divide(PyObject *a, PyObject *b) {
    Dtype *dtype; /* dtypes live as long as the process */
    ENGINE_BEGIN
    dtype = (Dtype *)((Array *)a)->node->dtype;
    ENGINE_END
    if (dtype_is_inexact(dtype) || b == Py_None) /* None gets its own error first */
        return in_place(TRUE_DIVIDE, a, b);
    PyErr_Format(PyExc_ValueError, "[divide] a quotient does not fit into %S: write a = a / b instead of a /= b.", dtype);
    return NULL;
}

static PyObject *array_power(PyObject *a, PyObject *b, PyObject *modulus) {
    if (modulus == Py_None)
        return binary(POWER, a, b);
    PyErr_SetString(PyExc_TypeError, "[power] arrays have no power with a modulus: write (a ** b) % m.");
    return NULL;
}

static PyObject *array_in_place_power(PyObject *a, PyObject *b, PyObject *Py_UNUSED(modulus)) {
    return in_place(POWER, a, b);
}

static PyObject *array_compare(PyObject *a, PyObject *b, int comparison) {
    static const int which[] = {[Py_LT] = LESS,      [Py_LE] = LESS_EQUAL, [Py_EQ] = EQUAL,
                                [Py_NE] = NOT_EQUAL, [Py_GT] = GREATER,    [Py_GE] = GREATER_EQUAL};
    return binary(which[comparison], a, b);
}

/* `==` is elementwise, so hashing goes by identity. */
static Py_hash_t array_hash(PyObject *self) {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_HashPointer(self);
#else
    return _Py_HashPointer(self);
#endif
}

static PyObject *array_shape(Array *self, void *Py_UNUSED(closure)) {
    return Py_NewRef(self->node->shape);
}

static PyObject *array_dtype(Array *self, void *Py_UNUSED(closure)) {
    return Py_NewRef(self->node->dtype);
}

static PyObject *array_ndim(Array *self, void *Py_UNUSED(closure)) {
    return PyLong_FromSsize_t(PyTuple_GET_SIZE(self->node->shape));
}

/* `count` times the product of all lengths. These are ints or, while a function is traced for all shapes, symbolic
 * dimensions that multiply like ints. */
static PyObject *times_lengths(long count, PyObject *shape) {
    PyObject *product = PyLong_FromLong(count);
    for (Py_ssize_t i = 0; product != NULL && i < PyTuple_GET_SIZE(shape); i++)
        Py_SETREF(product, PyNumber_Multiply(product, PyTuple_GET_ITEM(shape, i)));
    return product;
}

static PyObject *array_size(Array *self, void *Py_UNUSED(closure)) {
    return times_lengths(1, self->node->shape);
}

static PyObject *array_itemsize(Array *self, void *Py_UNUSED(closure)) {
    return PyLong_FromLong(((Dtype *)self->node->dtype)->itemsize);
}

static PyObject *array_nbytes(Array *self, void *Py_UNUSED(closure)) {
    return times_lengths(((Dtype *)self->node->dtype)->itemsize, self->node->shape);
}

static PyObject *array_node(Array *self, void *Py_UNUSED(closure)) {
    return Py_NewRef((PyObject *)self->node);
}

static int array_set_node(Array *self, PyObject *value, void *Py_UNUSED(closure)) {
    Node *node = value == NULL ? NULL : as_node(value);
    if (node == NULL) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_AttributeError, "the node of an array cannot be deleted.");
        return -1;
    }
    array_point_to((PyObject *)self, (Node *)Py_NewRef(node));
    return 0;
}

static PyObject *array_data(Array *self, void *Py_UNUSED(closure)) {
    return node_view(self->node);
}

/* Format strings match MLX's. The buffer protocol has none for bfloat16: without a buffer, NumPy asks `__array__`, which
 * answers in ml_dtypes' bfloat16. */
static int get_buffer(Node *node, Py_buffer *view, int flags) {
    if (node->dtype == (PyObject *)dtype_table[BFLOAT16]) {
        PyErr_SetString(PyExc_BufferError, "[memoryview] the buffer protocol has no format for bfloat16: use "
                                           "x.view(mx.uint16) for its bits, or np.array(x).");
        return -1;
    }
    PyObject *data;
    ENGINE_BEGIN
    data = node_view(node);
    ENGINE_END
    if (data == NULL)
        return -1;
    int status = PyObject_GetBuffer(data, view, flags);
    Py_DECREF(data);
    if (status == 0 && view->format != NULL) {
        int number = ((Dtype *)node->dtype)->number;
        view->format = number == INT64 ? "q" : number == UINT64 ? "Q" : view->format;
    }
    return status;
}

static int array_get_buffer(PyObject *object, Py_buffer *view, int flags) {
    view->obj = NULL;
    Node *node;
    ENGINE_BEGIN
    node = (Node *)Py_NewRef(((Array *)object)->node);
    ENGINE_END
    int status = get_buffer(node, view, flags);
    Py_DECREF(node);
    return status;
}

LOCKS_GETTER(array_shape)
LOCKS_GETTER(array_dtype)
LOCKS_GETTER(array_ndim)
LOCKS_GETTER(array_size)
LOCKS_GETTER(array_itemsize)
LOCKS_GETTER(array_nbytes)
LOCKS_GETTER(array_node)
LOCKS_SETTER(array_set_node)
LOCKS_GETTER(array_data)

static PyGetSetDef properties[] = {
    {"shape", (getter)LOCKED(array_shape), NULL, "The lengths of the axes, as a tuple of ints.", NULL},
    {"dtype", (getter)LOCKED(array_dtype), NULL, "The type of the elements.", NULL},
    {"ndim", (getter)LOCKED(array_ndim), NULL, "The number of axes.", NULL},
    {"size", (getter)LOCKED(array_size), NULL, "The number of elements.", NULL},
    {"itemsize", (getter)LOCKED(array_itemsize), NULL, "The size of one element in bytes.", NULL},
    {"nbytes", (getter)LOCKED(array_nbytes), NULL, "The number of bytes that the elements take.", NULL},
    {"_node", (getter)LOCKED(array_node), (setter)LOCKED(array_set_node), "The graph node that this handle points to.", NULL},
    {"_data", (getter)LOCKED(array_data), NULL, "The value as a NumPy array that shares memory; evaluates.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"__weaklistoffset__", T_PYSSIZET, offsetof(Array, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, array_new},
    {Py_tp_dealloc, array_dealloc},
    {Py_tp_hash, array_hash},
    {Py_tp_richcompare, array_compare},
    {Py_tp_getset, properties},
    {Py_tp_members, members},
    {Py_bf_getbuffer, array_get_buffer},
    {Py_nb_add, array_add},
    {Py_nb_inplace_add, array_in_place_add},
    {Py_nb_subtract, array_subtract},
    {Py_nb_inplace_subtract, array_in_place_subtract},
    {Py_nb_multiply, array_multiply},
    {Py_nb_inplace_multiply, array_in_place_multiply},
    {Py_nb_true_divide, array_true_divide},
    {Py_nb_inplace_true_divide, array_in_place_true_divide},
    {Py_nb_floor_divide, array_floor_divide},
    {Py_nb_inplace_floor_divide, array_in_place_floor_divide},
    {Py_nb_remainder, array_remainder},
    {Py_nb_inplace_remainder, array_in_place_remainder},
    {Py_nb_divmod, array_divmod},
    {Py_nb_power, array_power},
    {Py_nb_inplace_power, array_in_place_power},
    {Py_nb_matrix_multiply, array_matmul},
    {Py_nb_inplace_matrix_multiply, array_in_place_matmul},
    {Py_nb_and, array_and},
    {Py_nb_inplace_and, array_in_place_and},
    {Py_nb_or, array_or},
    {Py_nb_inplace_or, array_in_place_or},
    {Py_nb_xor, array_xor},
    {Py_nb_inplace_xor, array_in_place_xor},
    {Py_nb_lshift, array_left_shift},
    {Py_nb_inplace_lshift, array_in_place_left_shift},
    {Py_nb_rshift, array_right_shift},
    {Py_nb_inplace_rshift, array_in_place_right_shift},
    {Py_nb_negative, array_negative},
    {Py_nb_absolute, array_absolute},
    {Py_nb_invert, array_invert},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot.core.array",
    .basicsize = sizeof(Array),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE,
    .slots = slots,
};

/* set_operator(name, function) */
static PyObject *set_operator(PyObject *Py_UNUSED(module), PyObject *arguments) {
    const char *name;
    PyObject *function;
    if (!PyArg_ParseTuple(arguments, "sO:set_operator", &name, &function))
        return NULL;
    for (int i = 0; i < OPERATOR_COUNT; i++) {
        if (strcmp(name, operator_names[i]) == 0) {
            Py_XSETREF(operators[i], Py_NewRef(function));
            Py_RETURN_NONE;
        }
    }
    PyErr_Format(PyExc_ValueError, "there is no operator named %s.", name);
    return NULL;
}

static PyObject *wrap(PyObject *Py_UNUSED(module), PyObject *node) {
    Node *checked = as_node(node);
    return checked == NULL ? NULL : array_from_node((Node *)Py_NewRef(checked));
}

/* DLDataType of the DLPack standard. */
typedef struct {
    uint8_t code, bits;
    uint16_t lanes;
} ElementType;

enum { OFFSET_OF_ELEMENT_TYPE = 20, OFFSET_OF_TENSOR_IN_VERSIONED = 32 };

/* retype_dlpack(capsule, old, new) -> bool: if the elements of a DLPack capsule are 16 bits wide and have the type
 * code `old`, sets it to `new`. NumPy has no bfloat16, so such arrays cross that border as integers. */
static PyObject *retype_dlpack(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *capsule;
    unsigned char old, new;
    if (!PyArg_ParseTuple(arguments, "Obb:retype_dlpack", &capsule, &old, &new))
        return NULL;
    bool versioned = PyCapsule_IsValid(capsule, "dltensor_versioned");
    char *tensor = PyCapsule_GetPointer(capsule, versioned ? "dltensor_versioned" : "dltensor");
    if (tensor == NULL)
        return NULL;
    ElementType *type = (ElementType *)(tensor + (versioned ? OFFSET_OF_TENSOR_IN_VERSIONED : 0) + OFFSET_OF_ELEMENT_TYPE);
    bool found = type->code == old && type->bits == 16;
    if (found)
        type->code = new;
    return PyBool_FromLong(found);
}

LOCKS_METHOD(set_operator)
LOCKS_METHOD(wrap)

static PyMethodDef functions[] = {
    {"retype_dlpack", retype_dlpack, METH_VARARGS, "retype_dlpack(capsule, old code, new code) -> bool"},
    {"set_operator", LOCKED(set_operator), METH_VARARGS, "set_operator(name, function): what an operator of array calls"},
    {"wrap", LOCKED(wrap), METH_O, "wrap(node) -> array: a new handle on a node"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_array(PyObject *module) {
    Array_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (Array_Type == NULL || PyModule_AddObjectRef(module, "array", (PyObject *)Array_Type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
