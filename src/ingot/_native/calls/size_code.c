/* SizeCode: overflow-checked arithmetic on lengths, as a list of register instructions.
 *
 * Registers hold the inputs, then constants, then the result of each instruction. The code fixes which registers are ints
 * and which floats (graph/size_writer.py), and converts between them. Results equal those of Python's operators: for
 * numbers where it cannot guarantee that, the code reports an overflow, and Python computes them. */
#include "calls/size_code.h"

#include <math.h>
#include <structmember.h>

#define EXACT_FLOATS ((int64_t)1 << 53)

typedef enum {
    ADD,
    SUB,
    MUL,
    FLOORDIV,
    MOD,
    POW,
    LSHIFT,
    RSHIFT,
    AND,
    OR,
    XOR,
    NEG,
    ABS,
    INVERT,
    MAX,
    FLOAT,
    FADD,
    FSUB,
    FMUL,
    FFLOORDIV,
    FMOD,
    FPOW,
    TRUEDIV,
    FNEG,
    FABS,
    FLOOR,
    CEIL,
    ROUND,
    TRUNC,
    /* Conditions that must, or must not, hold; the second of each pair is the negation. */
    EQ,
    NOT_EQ,
    LT,
    NOT_LT,
    LE,
    NOT_LE,
    FEQ,
    NOT_FEQ,
    FLT,
    NOT_FLT,
    FLE,
    NOT_FLE,
    OPERATION_COUNT
} Operation;

static const char *const names[OPERATION_COUNT] = {
    "add",     "sub",    "mul",    "floordiv", "mod",   "pow",     "lshift", "rshift",  "and",       "or",   "xor",
    "neg",     "abs",    "invert", "max",      "float", "fadd",    "fsub",   "fmul",    "ffloordiv", "fmod", "fpow",
    "truediv", "fneg",   "fabs",   "floor",    "ceil",  "round",   "trunc",  "eq",      "not eq",    "lt",   "not lt",
    "le",      "not le", "feq",    "not feq",  "flt",   "not flt", "fle",    "not fle",
};

typedef struct {
    int operation, left, right;
} Instruction;

typedef struct {
    PyObject_HEAD
    Py_ssize_t input_count, constant_count, instruction_count;
    Number *constants;
    Instruction *instructions;
    bool *is_float; /* of each register */
} SizeCode;

PyTypeObject *SizeCode_Type;

/* ---- running ---- */

static bool to_integer(double x, int64_t *result) {
    if (!(fabs(x) <= (double)EXACT_FLOATS))
        return false; /* also for NaN */
    *result = (int64_t)x;
    return true;
}

static SizeOutcome divide(int operation, int64_t a, int64_t b, int64_t *result) {
    if (b == 0)
        return SIZES_BREAK_A_CONDITION;
    if (b == -1 && a == INT64_MIN)
        return SIZES_ARE_TOO_LARGE;
    int64_t quotient = a / b, rest = a % b;
    if (rest != 0 && (rest < 0) != (b < 0)) { /* towards minus infinity */
        quotient--;
        rest += b;
    }
    *result = operation == FLOORDIV ? quotient : rest;
    return SIZES_FIT;
}

static bool power(int64_t base, int64_t exponent, int64_t *result) {
    if (exponent < 0)
        return false;
    if (base >= -1 && base <= 1) {
        *result = exponent == 0 || base == 1 || (base == -1 && exponent % 2 == 0) ? 1 : base;
        return true;
    }
    for (*result = 1; exponent > 0; exponent--) {
        if (__builtin_mul_overflow(*result, base, result))
            return false;
    }
    return true;
}

static bool shift(int operation, int64_t a, int64_t by, int64_t *result) {
    if (by < 0)
        return false;
    if (operation == RSHIFT) {
        *result = a >> (by > 63 ? 63 : by);
        return true;
    }
    return by < 63 && !__builtin_mul_overflow(a, (int64_t)1 << by, result);
}

static SizeOutcome integer(int operation, int64_t a, int64_t b, int64_t *result) {
    bool fits = true;
    switch (operation) {
    case ADD:
        fits = !__builtin_add_overflow(a, b, result);
        break;
    case SUB:
        fits = !__builtin_sub_overflow(a, b, result);
        break;
    case MUL:
        fits = !__builtin_mul_overflow(a, b, result);
        break;
    case FLOORDIV:
    case MOD:
        return divide(operation, a, b, result);
    case POW:
        fits = power(a, b, result);
        break;
    case LSHIFT:
    case RSHIFT:
        fits = shift(operation, a, b, result);
        break;
    case AND:
        *result = a & b;
        break;
    case OR:
        *result = a | b;
        break;
    case XOR:
        *result = a ^ b;
        break;
    case NEG:
        fits = !__builtin_sub_overflow((int64_t)0, a, result);
        break;
    case ABS:
        fits = a != INT64_MIN;
        *result = a < 0 && fits ? -a : a;
        break;
    case INVERT:
        *result = ~a;
        break;
    default: /* MAX */
        *result = a > b ? a : b;
    }
    return fits ? SIZES_FIT : SIZES_ARE_TOO_LARGE;
}

/* Quotient and remainder of floats, as Python defines them. */
static SizeOutcome divide_floats(int operation, double a, double b, double *result) {
    if (b == 0)
        return SIZES_BREAK_A_CONDITION;
    double rest = fmod(a, b), quotient = (a - rest) / b;
    if (rest == 0) {
        rest = copysign(0, b);
    } else if ((b < 0) != (rest < 0)) {
        rest += b;
        quotient -= 1;
    }
    double low = quotient == 0 ? copysign(0, a / b) : floor(quotient);
    if (quotient - low > 0.5)
        low += 1;
    *result = operation == FMOD ? rest : low;
    return SIZES_FIT;
}

static SizeOutcome floating(int operation, double a, double b, double *result) {
    switch (operation) {
    case FADD:
        *result = a + b;
        break;
    case FSUB:
        *result = a - b;
        break;
    case FMUL:
        *result = a * b;
        break;
    case FFLOORDIV:
    case FMOD:
        return divide_floats(operation, a, b, result);
    case FPOW:
        *result = pow(a, b);
        /* in the other cases Python may raise, or return complex numbers */
        return a > 0 && isfinite(a) && isfinite(b) && isfinite(*result) ? SIZES_FIT : SIZES_ARE_TOO_LARGE;
    case TRUEDIV:
        if (b == 0)
            return SIZES_BREAK_A_CONDITION;
        *result = a / b;
        break;
    case FNEG:
        *result = -a;
        break;
    default: /* FABS */
        *result = fabs(a);
    }
    return SIZES_FIT;
}

static SizeOutcome convert(int operation, Number a, Number *result) {
    bool fits;
    switch (operation) {
    case FLOAT:
        fits = a.i >= -EXACT_FLOATS && a.i <= EXACT_FLOATS;
        result->f = (double)a.i;
        break;
    case FLOOR:
        fits = to_integer(floor(a.f), &result->i);
        break;
    case CEIL:
        fits = to_integer(ceil(a.f), &result->i);
        break;
    case ROUND:
        fits = to_integer(nearbyint(a.f), &result->i);
        break;
    default: /* TRUNC */
        fits = to_integer(trunc(a.f), &result->i);
    }
    return fits ? SIZES_FIT : SIZES_ARE_TOO_LARGE;
}

static bool holds(int operation, Number a, Number b) {
    bool is_true;
    switch (operation - (operation - EQ) % 2) {
    case EQ:
        is_true = a.i == b.i;
        break;
    case LT:
        is_true = a.i < b.i;
        break;
    case LE:
        is_true = a.i <= b.i;
        break;
    case FEQ:
        is_true = a.f == b.f;
        break;
    case FLT:
        is_true = a.f < b.f;
        break;
    default: /* FLE */
        is_true = a.f <= b.f;
    }
    return is_true == ((operation - EQ) % 2 == 0);
}

SizeOutcome size_code_run(PyObject *code, Number *registers) {
    const SizeCode *self = (SizeCode *)code;
    Number *next = registers + self->input_count;
    memcpy(next, self->constants, (size_t)self->constant_count * sizeof *next);
    next += self->constant_count;
    SizeOutcome outcome = SIZES_FIT;
    const Instruction *end = self->instructions + self->instruction_count;
    for (const Instruction *each = self->instructions; each < end && outcome == SIZES_FIT; each++, next++) {
        int operation = each->operation;
        Number a = registers[each->left], b = registers[each->right];
        if (operation < FLOAT)
            outcome = integer(operation, a.i, b.i, &next->i);
        else if (operation >= EQ)
            outcome = holds(operation, a, b) ? SIZES_FIT : SIZES_BREAK_A_CONDITION;
        else if (operation == FLOAT || operation >= FLOOR)
            outcome = convert(operation, a, next);
        else
            outcome = floating(operation, a.f, b.f, &next->f);
    }
    return outcome;
}

/* ---- between Python and registers ---- */

Py_ssize_t size_code_inputs(PyObject *code) {
    return ((SizeCode *)code)->input_count;
}

Py_ssize_t size_code_registers(PyObject *code) {
    const SizeCode *self = (SizeCode *)code;
    return self->input_count + self->constant_count + self->instruction_count;
}

static SizeOutcome read_number(PyObject *value, bool is_float, Number *number) {
    if (PyFloat_Check(value)) {
        number->f = PyFloat_AS_DOUBLE(value);
        return is_float ? SIZES_FIT : SIZES_BREAK_A_CONDITION;
    }
    int overflow = 0;
    number->i = PyLong_AsLongLongAndOverflow(value, &overflow);
    if (overflow != 0)
        return SIZES_ARE_TOO_LARGE;
    return is_float || PyErr_Occurred() ? SIZES_BREAK_A_CONDITION : SIZES_FIT;
}

SizeOutcome size_code_read(PyObject *code, PyObject *values, Number *registers) {
    const SizeCode *self = (SizeCode *)code;
    PyObject *fast = PySequence_Fast(values, "size code takes a sequence of numbers.");
    if (fast == NULL)
        return SIZES_BREAK_A_CONDITION;
    SizeOutcome outcome = SIZES_FIT;
    if (PySequence_Fast_GET_SIZE(fast) != self->input_count) {
        PyErr_Format(PyExc_TypeError, "size code takes %zd numbers, not %zd.", self->input_count,
                     PySequence_Fast_GET_SIZE(fast));
        outcome = SIZES_BREAK_A_CONDITION;
    }
    for (Py_ssize_t i = 0; outcome == SIZES_FIT && i < self->input_count; i++)
        outcome = read_number(PySequence_Fast_GET_ITEM(fast, i), self->is_float[i], &registers[i]);
    Py_DECREF(fast);
    return outcome;
}

bool size_code_is_float(PyObject *code, Py_ssize_t index) {
    return ((SizeCode *)code)->is_float[index];
}

static PyObject *size_code_number(PyObject *code, const Number *registers, Py_ssize_t index) {
    return ((SizeCode *)code)->is_float[index] ? PyFloat_FromDouble(registers[index].f)
                                               : PyLong_FromLongLong(registers[index].i);
}

PyObject *size_code_numbers(PyObject *code, const Number *registers, Py_ssize_t count) {
    PyObject *list = PyList_New(count);
    for (Py_ssize_t i = 0; list != NULL && i < count; i++) {
        PyObject *number = size_code_number(code, registers, i);
        if (number == NULL)
            Py_CLEAR(list);
        else
            PyList_SET_ITEM(list, i, number);
    }
    return list;
}

PyObject *size_code_refusal(SizeOutcome outcome) {
    if (outcome == SIZES_ARE_TOO_LARGE)
        PyErr_SetString(PyExc_OverflowError, "sizes are too large for 64 bits.");
    return PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
}

/* run(values) -> all registers, or None if a condition is not met */
static PyObject *code_run(PyObject *self, PyObject *values) {
    Number fast[FAST_REGISTERS], *registers = fast;
    size_t count = (size_t)size_code_registers(self);
    if (count > FAST_REGISTERS && (registers = PyMem_Malloc(count * sizeof *registers)) == NULL)
        return PyErr_NoMemory();
    memset(registers, 0, count * sizeof *registers);
    SizeOutcome outcome = size_code_read(self, values, registers);
    if (outcome == SIZES_FIT)
        outcome = size_code_run(self, registers);
    PyObject *result =
        outcome == SIZES_FIT ? size_code_numbers(self, registers, (Py_ssize_t)count) : size_code_refusal(outcome);
    if (registers != fast)
        PyMem_Free(registers);
    return result;
}

/* ---- making ---- */

static int read_instruction(SizeCode *self, PyObject *tuple, Py_ssize_t index) {
    const char *name;
    Instruction *made = &self->instructions[index];
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "sii", &name, &made->left, &made->right))
        return -1;
    for (made->operation = 0; made->operation < OPERATION_COUNT; made->operation++) {
        if (strcmp(names[made->operation], name) == 0)
            break;
    }
    Py_ssize_t defined = self->input_count + self->constant_count + index;
    if (made->operation == OPERATION_COUNT || made->left < 0 || made->left >= defined || made->right < 0 ||
        made->right >= defined) {
        PyErr_Format(PyExc_ValueError, "size code has no instruction %R at %zd.", tuple, index);
        return -1;
    }
    int operation = made->operation;
    self->is_float[defined] = operation >= FLOAT && operation < FLOOR;
    return 0;
}

static int read_code(SizeCode *self, const char *inputs, PyObject *constants, PyObject *instructions) {
    size_t registers = (size_t)(self->input_count + self->constant_count + self->instruction_count);
    self->constants = PyMem_Calloc((size_t)self->constant_count + 1, sizeof *self->constants);
    self->instructions = PyMem_Calloc((size_t)self->instruction_count + 1, sizeof *self->instructions);
    self->is_float = PyMem_Calloc(registers + 1, sizeof *self->is_float);
    if (self->constants == NULL || self->instructions == NULL || self->is_float == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->input_count; i++)
        self->is_float[i] = inputs[i] == 'f';
    for (Py_ssize_t i = 0; i < self->constant_count; i++) {
        PyObject *value = PyTuple_GET_ITEM(constants, i);
        bool is_float = PyFloat_Check(value);
        self->is_float[self->input_count + i] = is_float;
        if (read_number(value, is_float, &self->constants[i]) != SIZES_FIT) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_OverflowError, "a constant of size code is too large for 64 bits.");
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < self->instruction_count; i++) {
        if (read_instruction(self, PyList_GET_ITEM(instructions, i), i) < 0)
            return -1;
    }
    return 0;
}

/* SizeCode(inputs, constants, instructions) */
static PyObject *code_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    const char *inputs;
    Py_ssize_t input_count;
    PyObject *constants, *instructions;
    if (!PyArg_ParseTuple(arguments, "s#O!O!:SizeCode", &inputs, &input_count, &PyTuple_Type, &constants, &PyList_Type,
                          &instructions))
        return NULL;
    SizeCode *self = (SizeCode *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->input_count = input_count;
    self->constant_count = PyTuple_GET_SIZE(constants);
    self->instruction_count = PyList_GET_SIZE(instructions);
    if (read_code(self, inputs, constants, instructions) == 0)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void code_dealloc(SizeCode *self) {
    PyMem_Free(self->constants);
    PyMem_Free(self->instructions);
    PyMem_Free(self->is_float);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"run", code_run, METH_O,
     "run(values) -> all registers; None if a condition is not met; OverflowError if 64 bits are too few"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, code_new},
    {Py_tp_dealloc, code_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc,
     "SizeCode(inputs, constants, instructions): `inputs` has an i or f for each; instructions are (name, left, right)."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.SizeCode",
    .basicsize = sizeof(SizeCode),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int ingot_add_size_code(PyObject *module) {
    SizeCode_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    return SizeCode_Type == NULL ? -1 : PyModule_AddObjectRef(module, "SizeCode", (PyObject *)SizeCode_Type);
}
