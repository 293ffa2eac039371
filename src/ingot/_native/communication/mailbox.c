/* Mailboxes: headers of all ranks, with the data where they are small, in one exchange: an MPI_Allgather that C calls by its
 * address, or loads and stores if all are on one machine (shared.c).
 *
 * A collective of a few bytes takes MPI about two microseconds, less than Python needs to prepare it. A `Mailbox` belongs to
 * one group of processes; `graph/communication/transport.py` makes it and the templates of its envelopes, and decides what
 * happens to headers that differ. A `SmallReduction` is a sum, maximum or minimum of one shape and dtype: evaluation finds it
 * by op and layout and runs it without Python. */
#include "communication/mailbox.h"

#include "communication/progress.h"
#include "communication/shared.h"
#include "numpy_api.h"

/* MPICH's handles are ints, those of Open MPI and of the standard ABI pointers. */
typedef int (*AllgatherOfInts)(const void *, int, int, void *, int, int, int);
typedef int (*AllgatherOfPointers)(const void *, int, void *, void *, int, void *, void *);
typedef int (*IprobeOfInts)(int, int, int, int *, void *);
typedef int (*IprobeOfPointers)(int, int, void *, int *, void *);

typedef struct {
    PyObject_HEAD
    void *allgather;
    bool has_pointers;            /* as handles */
    uintptr_t communicator, byte; /* handles */
    int rank, size;
    int64_t calls;    /* so far, the first word of each header */
    int header, room; /* bytes of a header, and for data behind it */
    char *outgoing, *incoming;
    SharedSlots *shared; /* NULL if ranks are on several machines, or not to share memory */
    void *iprobe;
    int any_source, any_tag;
    PyObject *window; /* what owns the shared memory */
    PyObject *refuse; /* called with the envelopes of all ranks, of which headers differ: raises */
    PyObject *fail;   /* called with MPI's error code: raises */
} Mailbox;

enum { SUM, MAX, MIN };

typedef struct {
    PyObject_HEAD
    Mailbox *mailbox;
    PyObject *template; /* bytes: a header with the number 0 */
    PyObject *about;    /* what is reported to the watch */
    int kind, dtype;
    npy_intp count;
} SmallReduction;

static PyTypeObject *Mailbox_Type, *SmallReduction_Type;

/* What a thread waits for, for the watch; set and read with the GIL. */
static struct {
    double since;
    PyObject *about; /* borrowed from the reduction that runs; NULL if none does */
} waiting;

static int allgather(const Mailbox *self) {
    int length = self->header + self->room;
    if (self->has_pointers) {
        void *byte = (void *)self->byte, *communicator = (void *)self->communicator;
        return ((AllgatherOfPointers)self->allgather)(self->outgoing, length, byte, self->incoming, length, byte, communicator);
    }
    int byte = (int)self->byte, communicator = (int)self->communicator;
    return ((AllgatherOfInts)self->allgather)(self->outgoing, length, byte, self->incoming, length, byte, communicator);
}

/* Lets MPI move data of messages and collectives that are in flight. */
static void poll_mpi(const void *mailbox) {
    const Mailbox *self = mailbox;
    int found;
    _Alignas(16) char status[256]; /* larger than any library's */
    if (self->has_pointers)
        ((IprobeOfPointers)self->iprobe)(self->any_source, self->any_tag, (void *)self->communicator, &found, status);
    else
        ((IprobeOfInts)self->iprobe)(self->any_source, self->any_tag, (int)self->communicator, &found, status);
    ingot_make_progress();
}

static bool headers_agree(const Mailbox *self) {
    size_t header = (size_t)self->header, stride = header + (size_t)self->room;
    for (size_t rank = 0; rank < (size_t)self->size; rank++) {
        if (memcmp(self->incoming + rank * stride, self->outgoing, header) != 0)
            return false;
    }
    return true;
}

/* Calls a function that raises. */
static int raise_by(PyObject *function, PyObject *argument) {
    PyObject *result = argument == NULL ? NULL : PyObject_CallOneArg(function, argument);
    Py_XDECREF(argument);
    if (result != NULL) {
        Py_DECREF(result);
        PyErr_SetString(PyExc_RuntimeError, "a collective failed without an error; this is a bug in ingot.");
    }
    return -1;
}

/* Sends a header with the next number and the data behind it to all, whose envelopes are in `incoming` then. */
static int exchange(Mailbox *self, const char *template, const void *data, size_t length) {
    memcpy(self->outgoing, template, (size_t)self->header);
    memcpy(self->outgoing, &self->calls, sizeof self->calls);
    if (length > 0)
        memcpy(self->outgoing + self->header, data, length);
    int64_t call = self->calls++;
    if (self->shared != NULL) {
        ingot_shared_exchange(self->shared, call, self->outgoing, self->incoming, poll_mpi, self);
    } else {
        PyThreadState *state = PyEval_SaveThread();
        int code = allgather(self);
        PyEval_RestoreThread(state);
        if (code != 0)
            return raise_by(self->fail, PyLong_FromLong(code));
    }
    if (headers_agree(self))
        return 0;
    return raise_by(self->refuse,
                    PyBytes_FromStringAndSize(self->incoming, (Py_ssize_t)self->size * (self->header + self->room)));
}

/* ---- reductions in the order of ranks ---- */

#define REDUCE(name, type, wider)                                                             \
    static void name(const Mailbox *self, int kind, npy_intp count, void *into) {             \
        size_t stride = (size_t)self->header + (size_t)self->room;                            \
        type *result = into;                                                                  \
        memcpy(result, self->incoming + self->header, sizeof(type) * (size_t)count);          \
        for (size_t rank = 1; rank < (size_t)self->size; rank++) {                            \
            const char *row = self->incoming + rank * stride + (size_t)self->header;          \
            for (npy_intp i = 0; i < count; i++) {                                            \
                type x, y = result[i];                                                        \
                memcpy(&x, row + sizeof x * (size_t)i, sizeof x);                             \
                /* A NaN, which differs from itself, is both the largest and the smallest. */ \
                if (kind == SUM)                                                              \
                    result[i] = (type)((wider)y + (wider)x);                                  \
                else if (y == y && (x != x || (kind == MAX ? x > y : x < y)))                 \
                    result[i] = x;                                                            \
            }                                                                                 \
        }                                                                                     \
    }

/* Signed sums wrap around, as NumPy's do: they are computed as unsigned ones. */
REDUCE(reduce_int8, int8_t, unsigned)
REDUCE(reduce_int16, int16_t, unsigned)
REDUCE(reduce_int32, int32_t, unsigned)
REDUCE(reduce_int64, int64_t, uint64_t)
REDUCE(reduce_uint8, uint8_t, unsigned)
REDUCE(reduce_uint16, uint16_t, unsigned)
REDUCE(reduce_uint32, uint32_t, unsigned)
REDUCE(reduce_uint64, uint64_t, uint64_t)
REDUCE(reduce_float32, float, float)
REDUCE(reduce_float64, double, double)

typedef void (*Reduce)(const Mailbox *, int, npy_intp, void *);

static const Reduce reductions[DTYPE_COUNT] = {
    [INT8] = reduce_int8,       [INT16] = reduce_int16,     [INT32] = reduce_int32,   [INT64] = reduce_int64,
    [UINT8] = reduce_uint8,     [UINT16] = reduce_uint16,   [UINT32] = reduce_uint32, [UINT64] = reduce_uint64,
    [FLOAT32] = reduce_float32, [FLOAT64] = reduce_float64,
};

bool ingot_is_small_reduction(PyObject *object) {
    return Py_IS_TYPE(object, SmallReduction_Type);
}

PyObject *ingot_reduce_small(PyObject *reduction, PyObject *array) {
    SmallReduction *self = (SmallReduction *)reduction;
    PyArray_Descr *descr = (PyArray_Descr *)dtype_table[self->dtype]->numpy;
    if (!is_ndarray(array) || PyArray_DESCR(as_ndarray(array)) != descr || PyArray_SIZE(as_ndarray(array)) != self->count) {
        PyErr_SetString(PyExc_TypeError, "a reduction takes an ndarray of its own shape and dtype.");
        return NULL;
    }
    PyObject *own = is_contiguous(array) ? Py_NewRef(array) : PyArray_NewCopy(as_ndarray(array), NPY_CORDER);
    if (own == NULL)
        return NULL;
    Py_INCREF(descr);
    PyObject *result = PyArray_NewFromDescr(&PyArray_Type, descr, PyArray_NDIM(as_ndarray(own)), PyArray_DIMS(as_ndarray(own)),
                                            NULL, NULL, 0, NULL);
    if (result != NULL) {
        waiting.since = 1e-9 * (double)ingot_now();
        waiting.about = self->about;
        int status = exchange(self->mailbox, PyBytes_AS_STRING(self->template), ndarray_data(own),
                              (size_t)PyArray_NBYTES(as_ndarray(own)));
        waiting.about = NULL;
        if (status < 0)
            Py_CLEAR(result);
        else
            reductions[self->dtype](self->mailbox, self->kind, self->count, ndarray_data(result));
    }
    Py_DECREF(own);
    return result;
}

/* ---- the objects ---- */

static bool holds_header(const Mailbox *self, PyObject *template) {
    return PyBytes_Check(template) && PyBytes_GET_SIZE(template) == self->header;
}

/* Mailbox(allgather, handle_bytes, communicator, byte, rank, size, header, room, refuse, fail) */
static PyObject *mailbox_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    unsigned long long function, communicator, byte;
    int handle_bytes, rank, size, header, room;
    PyObject *refuse, *fail;
    if (!PyArg_ParseTuple(arguments, "KiKKiiiiOO:Mailbox", &function, &handle_bytes, &communicator, &byte, &rank, &size,
                          &header, &room, &refuse, &fail))
        return NULL;
    if (function == 0 || size < 1 || rank < 0 || rank >= size || header < 8 || room < 0 ||
        (handle_bytes != sizeof(int) && handle_bytes != sizeof(void *))) {
        PyErr_SetString(PyExc_ValueError, "a mailbox takes the address of MPI_Allgather, MPI's handles, and positive lengths.");
        return NULL;
    }
    Mailbox *self = (Mailbox *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->allgather = (void *)(uintptr_t)function;
    self->has_pointers = handle_bytes != sizeof(int);
    self->communicator = (uintptr_t)communicator;
    self->byte = (uintptr_t)byte;
    self->rank = rank;
    self->size = size;
    self->header = header;
    self->room = room;
    self->refuse = Py_NewRef(refuse);
    self->fail = Py_NewRef(fail);
    self->outgoing = PyMem_Calloc((size_t)size + 1, (size_t)header + (size_t)room);
    if (self->outgoing == NULL) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    self->incoming = self->outgoing + header + room;
    return (PyObject *)self;
}

static void mailbox_dealloc(Mailbox *self) {
    PyTypeObject *type = Py_TYPE(self);
    PyMem_Free(self->outgoing);
    ingot_shared_free(self->shared);
    Py_XDECREF(self->window);
    Py_XDECREF(self->refuse);
    Py_XDECREF(self->fail);
    type->tp_free(self);
    Py_DECREF(type);
}

/* share(segments, window, iprobe, any_source, any_tag): exchange in shared memory from now on. Segments are the addresses of
 * all ranks' memory, which the window owns, of `segment_bytes` zeros each. */
static PyObject *mailbox_share(Mailbox *self, PyObject *arguments) {
    PyObject *addresses, *window;
    unsigned long long iprobe;
    int any_source, any_tag;
    if (!PyArg_ParseTuple(arguments, "O!OKii:share", &PyTuple_Type, &addresses, &window, &iprobe, &any_source, &any_tag))
        return NULL;
    if (PyTuple_GET_SIZE(addresses) != self->size || iprobe == 0 || self->calls != 0 || self->shared != NULL) {
        PyErr_SetString(PyExc_ValueError,
                        "share takes a segment for each rank and MPI_Iprobe, once, before the first exchange.");
        return NULL;
    }
    char **segments = PyMem_Calloc((size_t)self->size, sizeof *segments);
    if (segments == NULL)
        return PyErr_NoMemory();
    for (int rank = 0; rank < self->size && !PyErr_Occurred(); rank++)
        segments[rank] = PyLong_AsVoidPtr(PyTuple_GET_ITEM(addresses, rank));
    if (!PyErr_Occurred()) {
        self->shared =
            ingot_shared_new(segments, (size_t)self->size, (size_t)self->rank, (size_t)self->header + (size_t)self->room);
        if (self->shared == NULL)
            PyErr_NoMemory();
    }
    PyMem_Free(segments);
    if (PyErr_Occurred())
        return NULL;
    self->window = Py_NewRef(window);
    self->iprobe = (void *)(uintptr_t)iprobe;
    self->any_source = any_source;
    self->any_tag = any_tag;
    Py_RETURN_NONE;
}

/* exchange(template, array or None) -> the envelopes of all ranks, as bytes */
static PyObject *mailbox_exchange(Mailbox *self, PyObject *const *arguments, Py_ssize_t count) {
    if (count != 2 || !holds_header(self, arguments[0])) {
        PyErr_SetString(PyExc_TypeError, "exchange takes a header as bytes, and an ndarray or None.");
        return NULL;
    }
    const void *data = NULL;
    size_t length = 0;
    if (is_ndarray(arguments[1])) {
        data = ndarray_data(arguments[1]);
        length = (size_t)PyArray_NBYTES(as_ndarray(arguments[1]));
        if (!is_contiguous(arguments[1]) || length > (size_t)self->room) {
            PyErr_SetString(PyExc_ValueError, "data behind a header are small and contiguous.");
            return NULL;
        }
    }
    if (exchange(self, PyBytes_AS_STRING(arguments[0]), data, length) < 0)
        return NULL;
    return PyBytes_FromStringAndSize(self->incoming, (Py_ssize_t)self->size * (self->header + self->room));
}

static PyObject *mailbox_calls(Mailbox *self, void *Py_UNUSED(closure)) {
    return PyLong_FromLongLong(self->calls);
}

static PyObject *mailbox_segment_bytes(Mailbox *self, void *Py_UNUSED(closure)) {
    return PyLong_FromSize_t(ingot_shared_bytes((size_t)self->header + (size_t)self->room));
}

LOCKS_METHOD(mailbox_share)
LOCKS_FAST_METHOD(mailbox_exchange)

static PyMethodDef mailbox_methods[] = {
    {"share", (PyCFunction)LOCKED(mailbox_share), METH_VARARGS,
     "share(segments, window, iprobe, any_source, any_tag): exchange in shared memory from now on"},
    {"exchange", (PyCFunction)(void (*)(void))LOCKED(mailbox_exchange), METH_FASTCALL,
     "exchange(header, array or None) -> the envelopes of all ranks"},
    {NULL, NULL, 0, NULL},
};

LOCKS_GETTER(mailbox_calls)
LOCKS_GETTER(mailbox_segment_bytes)

static PyGetSetDef mailbox_attributes[] = {
    {"calls", (getter)LOCKED(mailbox_calls), NULL, "How many exchanges there were.", NULL},
    {"segment_bytes", (getter)LOCKED(mailbox_segment_bytes), NULL, "Bytes of shared memory that each rank contributes.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot mailbox_slots[] = {
    {Py_tp_new, mailbox_new},
    {Py_tp_dealloc, mailbox_dealloc},
    {Py_tp_methods, mailbox_methods},
    {Py_tp_getset, mailbox_attributes},
    {Py_tp_doc, "The headers of one group of processes, exchanged with small data."},
    {0, NULL},
};

static PyType_Spec mailbox_spec = {
    .name = "ingot._native.Mailbox",
    .basicsize = sizeof(Mailbox),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = mailbox_slots,
};

/* SmallReduction(mailbox, template, about, kind, dtype, count); None if its dtype has no native reduction */
static PyObject *reduction_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    PyObject *mailbox, *template, *about, *dtype;
    int kind;
    Py_ssize_t count;
    if (!PyArg_ParseTuple(arguments, "O!OOiO!n:SmallReduction", Mailbox_Type, &mailbox, &template, &about, &kind, Dtype_Type,
                          &dtype, &count))
        return NULL;
    int number = ((Dtype *)dtype)->number;
    Mailbox *box = (Mailbox *)mailbox;
    if (!holds_header(box, template) || kind < SUM || kind > MIN || reductions[number] == NULL || count < 1 ||
        count > box->room / dtype_table[number]->itemsize) {
        PyErr_SetString(PyExc_ValueError, "a small reduction takes a header, a sum, maximum or minimum, and few numbers.");
        return NULL;
    }
    SmallReduction *self = (SmallReduction *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->mailbox = (Mailbox *)Py_NewRef(mailbox);
    self->template = Py_NewRef(template);
    self->about = Py_NewRef(about);
    self->kind = kind;
    self->dtype = number;
    self->count = count;
    return (PyObject *)self;
}

static void reduction_dealloc(SmallReduction *self) {
    PyTypeObject *type = Py_TYPE(self);
    Py_XDECREF(self->mailbox);
    Py_XDECREF(self->template);
    Py_XDECREF(self->about);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *reduction_run(PyObject *self, PyObject *array) {
    return ingot_reduce_small(self, array);
}

LOCKS_METHOD(reduction_run)

static PyMethodDef reduction_methods[] = {
    {"run", LOCKED(reduction_run), METH_O, "run(array) -> its reduction over the ranks"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot reduction_slots[] = {
    {Py_tp_new, reduction_new},
    {Py_tp_dealloc, reduction_dealloc},
    {Py_tp_methods, reduction_methods},
    {Py_tp_doc, "A sum, maximum or minimum over ranks of arrays of one small shape."},
    {0, NULL},
};

static PyType_Spec reduction_spec = {
    .name = "ingot._native.SmallReduction",
    .basicsize = sizeof(SmallReduction),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = reduction_slots,
};

/* small_wait() -> (since, about) of the small reduction that a thread waits in, or None */
static PyObject *small_wait(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    if (waiting.about == NULL)
        Py_RETURN_NONE;
    return Py_BuildValue("dO", waiting.since, waiting.about);
}

LOCKS_METHOD(small_wait)

static PyMethodDef functions[] = {
    {"small_wait", LOCKED(small_wait), METH_NOARGS, "Since when, and in what, a small reduction waits for other ranks."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_mailbox(PyObject *module) {
    Mailbox_Type = (PyTypeObject *)PyType_FromSpec(&mailbox_spec);
    if (Mailbox_Type == NULL || PyModule_AddObjectRef(module, "Mailbox", (PyObject *)Mailbox_Type) < 0)
        return -1;
    SmallReduction_Type = (PyTypeObject *)PyType_FromSpec(&reduction_spec);
    if (SmallReduction_Type == NULL || PyModule_AddObjectRef(module, "SmallReduction", (PyObject *)SmallReduction_Type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
