/* NativeRoutine: an object that holds the calls of a routine. */
#include "routines/routine.h"

#include "memory/allocator.h"
#include "numpy_api.h"
#include "threads/pool.h"
#include <structmember.h>

enum { MAX_ROUTINE_SLOTS = 16, STACK_SCRATCH = 16 << 10, ALIGNMENT = 64 };

typedef enum { NOTHING, ADDRESS, PLAN } Kind; /* of what a call takes besides operands and numbers */

static const struct {
    const char *name;
    int (*run)(const RoutineCall *, const RoutineMemory *);
    int operands, numbers; /* operands: -1: any number */
    Kind kind;
} known_calls[] = {
    {"copy", ingot_call_copy, 2, 9, NOTHING},
    {"unit", ingot_call_unit, 1, 3, NOTHING},
    {"convert", ingot_call_convert, 2, 2, NOTHING},
    {"finite", ingot_call_finite, 1, 2, NOTHING},
    {"nonsingular", ingot_call_nonsingular, 1, 3, NOTHING},
    {"dense", ingot_call_dense, 6, 6, NOTHING},
    {"lanes", ingot_call_lanes, 6, 6, NOTHING},
    {"definite", ingot_call_definite, 2, 4, NOTHING},
    {"lapack", ingot_call_lapack, -1, 3, ADDRESS},
    {"positions", ingot_call_positions, 3, 3, NOTHING},
    {"fourier", ingot_call_fourier, 3, 3, PLAN},
    {"chirp", ingot_call_chirp, 3, 7, NOTHING},
    {"scan", ingot_call_scan, 3, 7, NOTHING},
    {"search", ingot_call_search, 3, 5, NOTHING},
};

typedef struct {
    PyObject_HEAD
    Py_ssize_t argument_count, call_count;
    Py_ssize_t *argument_bytes;
    PyObject *constants; /* bytes */
    int64_t shared_bytes, thread_bytes;
    bool can_fail;
    RoutineCall *calls;
} Routine;

PyTypeObject *Routine_Type;

Py_ssize_t ingot_routine_arguments(const PyObject *routine) {
    return ((const Routine *)routine)->argument_count;
}

static void raise_no_memory(void) {
    PyGILState_STATE state = PyGILState_Ensure();
    if (!PyErr_Occurred())
        PyErr_NoMemory();
    PyGILState_Release(state);
}

static int run_calls(const Routine *self, const RoutineMemory *memory) {
    int status = ROUTINE_DONE;
    for (Py_ssize_t i = 0; i < self->call_count && status == ROUTINE_DONE; i++)
        status = self->calls[i].run(&self->calls[i], memory);
    if (status == ROUTINE_INTERRUPTED)
        raise_no_memory(); /* unless a signal stopped it */
    return status;
}

int ingot_run_routine(const PyObject *routine, char *const *arguments) {
    const Routine *self = (const Routine *)routine;
    char *slots[MAX_ROUTINE_SLOTS], scratch[STACK_SCRATCH + ALIGNMENT];
    Py_ssize_t count = self->argument_count;
    memcpy(slots, arguments, (size_t)count * sizeof *slots);
    int threads = ingot_num_threads(), pinned = ingot_pin_threads(threads);
    size_t size = (size_t)(self->shared_bytes + self->thread_bytes * threads);
    bool is_small = size <= STACK_SCRATCH;
    char *block = is_small ? scratch + (ALIGNMENT - (uintptr_t)scratch % ALIGNMENT) : ingot_allocate(size);
    if (block == NULL) {
        ingot_pin_threads(pinned);
        raise_no_memory();
        return ROUTINE_INTERRUPTED;
    }
    slots[count] = PyBytes_AS_STRING(self->constants);
    slots[count + 1] = block;
    slots[count + 2] = block + self->shared_bytes;
    RoutineMemory memory = {.slots = slots, .thread_slot = (int)count + 2, .thread_bytes = self->thread_bytes};
    int status = run_calls(self, &memory);
    if (!is_small)
        ingot_release(block, size);
    ingot_pin_threads(pinned);
    return status;
}

/* ---- construction ---- */

/* Whether an operand begins inside its memory. Strides are not checked. */
static bool is_inside(const Routine *self, const RoutineOperand *operand) {
    if (operand->slot == -1)
        return true;
    Py_ssize_t beyond = operand->slot - self->argument_count;
    int64_t sizes[] = {PyBytes_GET_SIZE(self->constants), self->shared_bytes, self->thread_bytes};
    if (operand->slot < -1 || beyond > 2 || operand->offset < 0)
        return false;
    return operand->offset <= (beyond < 0 ? self->argument_bytes[operand->slot] : sizes[beyond]);
}

static int read_operands(const Routine *self, PyObject *tuple, RoutineCall *call) {
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    bool fits = count <= MAX_ROUTINE_OPERANDS;
    call->operand_count = fits ? (int)count : 0;
    for (int i = 0; fits && i < call->operand_count; i++) {
        RoutineOperand *operand = &call->operands[i];
        long long offset, stride;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tuple, i), "iLL", &operand->slot, &offset, &stride))
            return -1;
        operand->offset = offset;
        operand->stride = stride;
        fits = is_inside(self, operand);
    }
    if (!fits)
        PyErr_SetString(PyExc_ValueError, "a call of a routine has too many operands, or one outside its memory.");
    return fits ? 0 : -1;
}

static int read_numbers(PyObject *tuple, RoutineCall *call) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        call->numbers[i] = PyLong_AsLongLong(PyTuple_GET_ITEM(tuple, i));
        if (call->numbers[i] == -1 && PyErr_Occurred())
            return -1;
    }
    return 0;
}

/* Reads (name, operands, numbers, an address or the plan of a Fourier transform). */
static int read_call(const Routine *self, PyObject *tuple, RoutineCall *call) {
    const char *name;
    PyObject *operands, *numbers, *owner;
    if (!PyArg_ParseTuple(tuple, "sO!O!O", &name, &PyTuple_Type, &operands, &PyTuple_Type, &numbers, &owner))
        return -1;
    size_t i = 0;
    while (i < Py_ARRAY_LENGTH(known_calls) && strcmp(known_calls[i].name, name) != 0)
        i++;
    if (i == Py_ARRAY_LENGTH(known_calls) || PyTuple_GET_SIZE(numbers) != known_calls[i].numbers ||
        (known_calls[i].operands >= 0 && PyTuple_GET_SIZE(operands) != known_calls[i].operands)) {
        PyErr_Format(PyExc_ValueError, "routines have no call %s with %zd operands and %zd numbers.", name,
                     PyTuple_GET_SIZE(operands), PyTuple_GET_SIZE(numbers));
        return -1;
    }
    call->run = known_calls[i].run;
    if (known_calls[i].kind == ADDRESS)
        call->address = PyLong_AsVoidPtr(owner);
    else if (known_calls[i].kind == PLAN)
        call->address = ingot_fourier_plan_of(owner);
    if (known_calls[i].kind != NOTHING && call->address == NULL) {
        if (!PyErr_Occurred())
            PyErr_Format(PyExc_ValueError, "the call %s of a routine needs an address.", name);
        return -1;
    }
    if (known_calls[i].kind == ADDRESS && !ingot_can_call(PyTuple_GET_SIZE(operands))) {
        PyErr_Format(PyExc_ValueError, "routines call no function of %zd operands.", PyTuple_GET_SIZE(operands));
        return -1;
    }
    call->owner = Py_NewRef(owner);
    return read_operands(self, operands, call) < 0 ? -1 : read_numbers(numbers, call);
}

static int read_routine(Routine *self, PyObject *sizes, PyObject *calls) {
    Py_ssize_t count = PyTuple_GET_SIZE(sizes);
    self->argument_bytes = PyMem_Calloc((size_t)count + 1, sizeof *self->argument_bytes);
    self->calls = PyMem_Calloc((size_t)PyTuple_GET_SIZE(calls) + 1, sizeof *self->calls);
    if (self->argument_bytes == NULL || self->calls == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    if (count > MAX_ROUTINE_SLOTS - 3 || self->shared_bytes < 0 || self->thread_bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "a routine has too many arguments, or memory of a negative size.");
        return -1;
    }
    self->argument_count = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        self->argument_bytes[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sizes, i));
        if (self->argument_bytes[i] == -1 && PyErr_Occurred())
            return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(calls); i++) {
        self->call_count = i + 1;
        if (read_call(self, PyTuple_GET_ITEM(calls, i), &self->calls[i]) < 0)
            return -1;
    }
    return 0;
}

/* NativeRoutine(bytes of each argument, constants, shared bytes, bytes of each thread, can_fail, calls) */
static PyObject *routine_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    PyObject *sizes, *constants, *calls;
    long long shared, of_thread;
    int can_fail;
    if (!PyArg_ParseTuple(arguments, "O!O!LLpO!:NativeRoutine", &PyTuple_Type, &sizes, &PyBytes_Type, &constants, &shared,
                          &of_thread, &can_fail, &PyTuple_Type, &calls))
        return NULL;
    Routine *self = (Routine *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->constants = Py_NewRef(constants);
    self->shared_bytes = shared;
    self->thread_bytes = of_thread;
    self->can_fail = can_fail;
    if (read_routine(self, sizes, calls) < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void routine_dealloc(Routine *self) {
    for (Py_ssize_t i = 0; i < self->call_count; i++)
        Py_XDECREF(self->calls[i].owner);
    PyMem_Free(self->calls);
    PyMem_Free(self->argument_bytes);
    Py_XDECREF(self->constants);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

/* run(arrays) -> whether it succeeded */
static PyObject *routine_run(PyObject *routine, PyObject *arrays) {
    const Routine *self = (const Routine *)routine;
    char *arguments[MAX_ROUTINE_SLOTS];
    bool fits = PyTuple_Check(arrays) && PyTuple_GET_SIZE(arrays) == self->argument_count;
    for (Py_ssize_t i = 0; fits && i < self->argument_count; i++) {
        PyObject *array = PyTuple_GET_ITEM(arrays, i);
        fits = PyArray_Check(array) && PyArray_IS_C_CONTIGUOUS(as_ndarray(array)) &&
               PyArray_NBYTES(as_ndarray(array)) == self->argument_bytes[i];
        arguments[i] = fits ? ndarray_data(array) : NULL;
    }
    if (!fits)
        return PyErr_Format(PyExc_ValueError, "[NativeRoutine.run] takes contiguous arrays of the routine's sizes.");
    int status;
    Py_BEGIN_ALLOW_THREADS
    status = ingot_run_routine(routine, arguments);
    Py_END_ALLOW_THREADS
    return status == ROUTINE_INTERRUPTED ? NULL : PyBool_FromLong(status == ROUTINE_DONE);
}

static PyMethodDef methods[] = {
    {"run", routine_run, METH_O, "run(arrays) -> whether it succeeded: operands and results, contiguous, in one tuple"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"can_fail", T_BOOL, offsetof(Routine, can_fail), READONLY, "Whether a run may fail, after which `evaluate` is called."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, routine_new},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_dealloc, routine_dealloc},
    {Py_tp_doc, "NativeRoutine(argument_bytes, constants, shared_bytes, thread_bytes, can_fail, calls): calls are "
                "(name, operands, numbers, address or plan), operands are (slot, offset, stride)."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.NativeRoutine",
    .basicsize = sizeof(Routine),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int ingot_add_routine(PyObject *module) {
    Routine_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    return Routine_Type == NULL ? -1 : PyModule_AddObjectRef(module, "NativeRoutine", (PyObject *)Routine_Type);
}
