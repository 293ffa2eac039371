/* pack: copies nested lists of Python numbers into one block of memory. Everything else, and every error, is left to
 * Python. */
#include "native.h"

#include "memory/allocator.h"
#include "memory/buffer.h"

#define MAX_AXES 64 /* NumPy's limit */

typedef struct {
    Py_ssize_t shape[MAX_AXES];
    int ndim;
    int dtype;  /* number of the smallest dtype that holds all numbers so far */
    char *next; /* write position of the second pass */
} Packing;

static bool is_sequence(PyObject *object) {
    return PyList_Check(object) || PyTuple_Check(object);
}

/* The shape that the first items of each level imply; false if there are too many levels. */
static bool find_shape(Packing *packing, PyObject *value) {
    packing->ndim = 0;
    while (is_sequence(value)) {
        if (packing->ndim == MAX_AXES)
            return false;
        Py_ssize_t length = PySequence_Fast_GET_SIZE(value);
        packing->shape[packing->ndim++] = length;
        if (length == 0)
            break;
        value = PySequence_Fast_GET_ITEM(value, 0);
    }
    return true;
}

/* The dtype number of a Python number: BOOL, INT32, INT64 or FLOAT32; -1 if it is no number or does not fit. */
static int number_dtype(PyObject *number) {
    if (PyFloat_Check(number))
        return FLOAT32;
    if (PyBool_Check(number))
        return BOOL;
    if (!PyLong_Check(number))
        return -1;
    int overflow;
    long long value = PyLong_AsLongLongAndOverflow(number, &overflow);
    if (overflow)
        return -1;
    return value < INT32_MIN || value > INT32_MAX ? INT64 : INT32;
}

/* The first pass: checks lengths and finds the dtype. False if it finds a ragged list or anything that is not a
 * number. */
static bool survey(Packing *packing, PyObject *sequence, int axis) {
    Py_ssize_t length = PySequence_Fast_GET_SIZE(sequence);
    if (length != packing->shape[axis])
        return false;
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(sequence, i);
        if (axis + 1 < packing->ndim) {
            if (!is_sequence(item) || !survey(packing, item, axis + 1))
                return false;
            continue;
        }
        int dtype = number_dtype(item);
        if (dtype < 0)
            return false;
        if (dtype > packing->dtype) /* these dtype numbers are in promotion order */
            packing->dtype = dtype;
    }
    return true;
}

static double as_double(PyObject *number) {
    return PyFloat_Check(number) ? PyFloat_AS_DOUBLE(number) : (double)PyLong_AsLongLong(number);
}

#define STORE(type, value)                      \
    do {                                        \
        *(type *)packing->next = (type)(value); \
        packing->next += sizeof(type);          \
    } while (0)

/* The second pass. No Python code runs in either pass, so the lists cannot change between them. */
static void fill(Packing *packing, PyObject *sequence, int axis) {
    Py_ssize_t length = PySequence_Fast_GET_SIZE(sequence);
    for (Py_ssize_t i = 0; i < length; i++) {
        PyObject *item = PySequence_Fast_GET_ITEM(sequence, i);
        if (axis + 1 < packing->ndim)
            fill(packing, item, axis + 1);
        else if (packing->dtype == FLOAT32)
            STORE(float, as_double(item));
        else if (packing->dtype == FLOAT64)
            STORE(double, as_double(item));
        else if (packing->dtype == INT32)
            STORE(int32_t, PyLong_AsLongLong(item));
        else if (packing->dtype == INT64)
            STORE(int64_t, PyLong_AsLongLong(item));
        else
            STORE(uint8_t, item == Py_True);
    }
}

static PyObject *shape_tuple(const Packing *packing) {
    PyObject *shape = PyTuple_New(packing->ndim);
    for (int axis = 0; shape != NULL && axis < packing->ndim; axis++) {
        PyObject *length = PyLong_FromSsize_t(packing->shape[axis]);
        if (length == NULL)
            Py_CLEAR(shape);
        else
            PyTuple_SET_ITEM(shape, axis, length);
    }
    return shape;
}

/* pack(sequence, double) -> (Buffer, shape, dtype), or None if Python must handle it. With `double`, floats stay
 * float64. */
static PyObject *pack(PyObject *Py_UNUSED(module), PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !is_sequence(arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "pack takes a list or tuple and a bool.");
        return NULL;
    }
    Packing packing = {.dtype = BOOL};
    if (!find_shape(&packing, arguments[0]))
        Py_RETURN_NONE;
    size_t size = 1;
    for (int axis = 0; axis < packing.ndim; axis++) {
        /* Lists that share items can describe more numbers than fit in memory. */
        if (__builtin_mul_overflow(size, (size_t)packing.shape[axis], &size) || size > ingot_memory_reach())
            return ingot_no_memory(size);
    }
    if (!survey(&packing, arguments[0], 0))
        Py_RETURN_NONE;
    if (size == 0)
        packing.dtype = FLOAT32;
    if (packing.dtype == FLOAT32 && arguments[1] == Py_True)
        packing.dtype = FLOAT64;
    Dtype *dtype = dtype_table[packing.dtype];
    PyObject *shape = shape_tuple(&packing);
    PyObject *memory = shape == NULL ? NULL : ingot_buffer_new(size * (size_t)dtype->itemsize);
    PyObject *result = memory == NULL ? NULL : PyTuple_Pack(3, memory, shape, (PyObject *)dtype);
    if (result != NULL) {
        packing.next = ingot_buffer_data(memory);
        fill(&packing, arguments[0], 0);
    }
    Py_XDECREF(memory);
    Py_XDECREF(shape);
    return result;
}

static PyMethodDef functions[] = {
    {"pack", (PyCFunction)(void (*)(void))pack, METH_FASTCALL, "pack(sequence, double) -> (Buffer, shape, dtype) or None"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_pack(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
