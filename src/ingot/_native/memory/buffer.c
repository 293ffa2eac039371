/* Buffer(nbytes): one block of the allocator as a Python object. Exports its bytes, writable, through the buffer
 * protocol; a view holds a reference, so the block lives until the last view is gone. */
#include "native.h"

#include "memory/buffer.h"

#include "memory/allocator.h"

typedef struct {
    PyObject_HEAD
    void *data;
    size_t nbytes;
} Buffer;

static PyTypeObject Buffer_Type;

/* "1.20 TB": three digits are enough, and sizes in one unit are easier to compare. */
static void describe_bytes(size_t bytes, char *text, size_t room) {
    static const char *const units[] = {"bytes", "KB", "MB", "GB", "TB", "PB", "EB"};
    double value = (double)bytes;
    int unit = 0;
    while (value >= 1000 && unit < 6) {
        value /= 1000;
        unit++;
    }
    snprintf(text, room, unit == 0 ? "%.0f %s" : "%.2f %s", value, units[unit]);
}

static PyObject *memory_text(size_t size) {
    char wanted[32], active[32], reach[32], cache[32], peak[32], limit[32], text[512];
    describe_bytes(size, wanted, sizeof wanted);
    describe_bytes(ingot_active_memory(), active, sizeof active);
    describe_bytes(ingot_memory_reach(), reach, sizeof reach);
    describe_bytes(ingot_cache_memory(), cache, sizeof cache);
    describe_bytes(ingot_peak_memory(), peak, sizeof peak);
    describe_bytes(ingot_memory_limit(), limit, sizeof limit);
    snprintf(text, sizeof text,
             "[malloc] cannot allocate %s: %s are in use and this process may use %s in all. The most in use so far was %s, "
             "%s are kept for reuse, and mx.set_memory_limit is at %s.",
             wanted, active, reach, peak, cache, limit);
    return PyUnicode_FromString(text);
}

PyObject *ingot_no_memory(size_t size) {
    PyObject *text = memory_text(size);
    if (text != NULL)
        PyErr_SetObject(PyExc_MemoryError, text);
    Py_XDECREF(text);
    return NULL;
}

/* memory_text(nbytes) -> the error message for a failed request of that size */
static PyObject *memory_text_function(PyObject *Py_UNUSED(module), PyObject *number) {
    size_t size = PyLong_AsSize_t(number);
    return size == (size_t)-1 && PyErr_Occurred() ? NULL : memory_text(size);
}

static PyObject *memory_reach(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return PyLong_FromSize_t(ingot_memory_reach());
}

static PyMethodDef functions[] = {
    {"memory_text", memory_text_function, METH_O, "memory_text(nbytes) -> the sentence of a request that failed"},
    {"memory_reach", memory_reach, METH_NOARGS, "The bytes that this process may use in all."},
    {NULL, NULL, 0, NULL},
};

static PyObject *make_buffer(PyTypeObject *type, size_t nbytes) {
    void *data = ingot_allocate(nbytes);
    if (data == NULL) {
        return ingot_no_memory(nbytes);
    }
    Buffer *self = (Buffer *)type->tp_alloc(type, 0);
    if (self == NULL) {
        ingot_release(data, nbytes);
        return NULL;
    }
    self->data = data;
    self->nbytes = nbytes;
    return (PyObject *)self;
}

PyObject *ingot_buffer_new(size_t nbytes) {
    return make_buffer(&Buffer_Type, nbytes);
}

void *ingot_buffer_data(PyObject *buffer) {
    return ((Buffer *)buffer)->data;
}

int ingot_is_buffer(PyObject *object) {
    return Py_IS_TYPE(object, &Buffer_Type);
}

static PyObject *buffer_new(PyTypeObject *type, PyObject *arguments, PyObject *keywords) {
    static char *names[] = {"nbytes", NULL};
    PyObject *number;
    if (!PyArg_ParseTupleAndKeywords(arguments, keywords, "O:Buffer", names, &number)) {
        return NULL;
    }
    Py_ssize_t nbytes = PyNumber_AsSsize_t(number, NULL); /* clamps: the allocator rejects sizes that are too large */
    if (nbytes == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (nbytes < 0) {
        PyErr_Format(PyExc_ValueError, "[Buffer] nbytes must not be negative, got %S.", number);
        return NULL;
    }
    return make_buffer(type, (size_t)nbytes);
}

static void buffer_dealloc(PyObject *object) {
    Buffer *self = (Buffer *)object;
    ingot_release(self->data, self->nbytes);
    Py_TYPE(object)->tp_free(object);
}

static int buffer_getbuffer(PyObject *object, Py_buffer *view, int flags) {
    Buffer *self = (Buffer *)object;
    return PyBuffer_FillInfo(view, object, self->data, (Py_ssize_t)self->nbytes, 0, flags);
}

static Py_ssize_t buffer_length(PyObject *object) {
    return (Py_ssize_t)((Buffer *)object)->nbytes;
}

static PyObject *buffer_get_nbytes(PyObject *object, void *Py_UNUSED(closure)) {
    return PyLong_FromSize_t(((Buffer *)object)->nbytes);
}

static PyObject *buffer_get_address(PyObject *object, void *Py_UNUSED(closure)) {
    return PyLong_FromVoidPtr(((Buffer *)object)->data);
}

static PyObject *buffer_repr(PyObject *object) {
    return PyUnicode_FromFormat("Buffer(%zu)", ((Buffer *)object)->nbytes);
}

static PyBufferProcs buffer_protocol = {.bf_getbuffer = buffer_getbuffer};
static PySequenceMethods buffer_sequence = {.sq_length = buffer_length};

static PyGetSetDef buffer_attributes[] = {
    {"nbytes", buffer_get_nbytes, NULL, "The size in bytes.", NULL},
    {"address", buffer_get_address, NULL, "Where the first byte is, a multiple of 64.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyTypeObject Buffer_Type = {
    PyVarObject_HEAD_INIT(NULL, 0).tp_name = "ingot._native.Buffer",
    .tp_doc = "Buffer(nbytes): a block of memory from the allocator. The contents are not initialised.",
    .tp_basicsize = sizeof(Buffer),
    .tp_flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_IMMUTABLETYPE,
    .tp_new = buffer_new,
    .tp_dealloc = buffer_dealloc,
    .tp_repr = buffer_repr,
    .tp_as_buffer = &buffer_protocol,
    .tp_as_sequence = &buffer_sequence,
    .tp_getset = buffer_attributes,
};

int ingot_add_buffer(PyObject *module) {
    if (PyModule_AddFunctions(module, functions) < 0)
        return -1;
    return PyModule_AddType(module, &Buffer_Type);
}
