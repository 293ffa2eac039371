/* Loops around programs: the instructions of a body, repeated with addresses that change from step to step. */
#include "programs/program.h"

#include "memory/allocator.h"
#include "memory/buffer.h"
#include "threads/interrupt.h"
#include "numpy_api.h"

bool ingot_program_can_loop(const Program *self) {
    return !self->has_host && self->finish == Py_None && !self->any_layout;
}

/* A slot whose address advances by a slice per step, forwards or backwards. */
typedef struct {
    Py_ssize_t slot, bytes;
} Moving;

/* A loop around a program. Carried values alternate between the buffers `first` and `second`. */
typedef struct {
    Program *program;
    PyObject *inputs, *first, *second; /* tuples of ndarrays */
    Py_ssize_t carries, slices;
    Py_ssize_t length; /* -1: until the flag is clear */
    bool reverse, has_flag;
    Py_ssize_t moving_count;
    Moving *moving;
} Loop;

static char *data_of(PyObject *tuple, Py_ssize_t i) {
    return ndarray_data(PyTuple_GET_ITEM(tuple, i));
}

/* Points a slot at the slice of a stacked array that the first step uses. */
static void begin_slices(Loop *loop, char **slots, Py_ssize_t slot, PyObject *tuple, Py_ssize_t i) {
    Py_ssize_t bytes = PyArray_NBYTES((PyArrayObject *)PyTuple_GET_ITEM(tuple, i)) / loop->length;
    slots[slot] = data_of(tuple, i) + (loop->reverse ? (loop->length - 1) * bytes : 0);
    loop->moving[loop->moving_count++] = (Moving){slot, loop->reverse ? -bytes : bytes};
}

static void move_slots(const Loop *loop, char **slots, Py_ssize_t step) {
    Py_ssize_t inputs = loop->program->input_count;
    PyObject *read = step % 2 == 0 ? loop->first : loop->second, *written = step % 2 == 0 ? loop->second : loop->first;
    for (Py_ssize_t i = 0; i < loop->carries; i++) {
        slots[i] = data_of(read, i);
        slots[inputs + i] = data_of(written, i);
    }
    for (Py_ssize_t i = 0; i < loop->moving_count; i++)
        slots[loop->moving[i].slot] += loop->moving[i].bytes;
}

/* The number of steps that ran; -1 with an exception if the loop was interrupted. */
static Py_ssize_t run_steps(const Loop *loop, char **slots) {
    Program *self = loop->program;
    Py_ssize_t step = 0;
    bool goes_on = true;
    while (goes_on && step != loop->length) {
        for (Py_ssize_t i = 0; i < self->instruction_count; i++) {
            if (!ingot_run_instruction(self, &self->instructions[i], slots))
                return -1;
        }
        if (loop->has_flag)
            goes_on = *(bool *)data_of(loop->first, self->output_count - 1);
        move_slots(loop, slots, step++);
        if (ingot_should_stop())
            return -1;
    }
    return step;
}

/* The addresses of the first step. */
static void begin_loop(Loop *loop, char **slots, void *arena) {
    Program *self = loop->program;
    for (Py_ssize_t i = 0; i < self->input_count; i++) {
        if (i >= loop->carries && i < loop->carries + loop->slices)
            begin_slices(loop, slots, i, loop->inputs, i);
        else
            slots[i] = data_of(loop->inputs, i);
    }
    Py_ssize_t stacked = self->output_count - loop->has_flag;
    for (Py_ssize_t i = 0; i < self->output_count; i++) {
        if (i >= loop->carries && i < stacked)
            begin_slices(loop, slots, self->input_count + i, loop->first, i);
        else
            slots[self->input_count + i] = data_of(loop->first, i);
    }
    for (Py_ssize_t i = 0; i < self->constant_count; i++)
        slots[self->input_count + self->output_count + i] = data_of(self->constants, i);
    for (Py_ssize_t i = 0; i < self->own_count; i++)
        slots[self->own[i].slot] = self->own[i].data;
    slots[self->arena_slot] = arena;
}

static Py_ssize_t run_loop(Loop *loop, char **slots, void *arena) {
    begin_loop(loop, slots, arena);
    ingot_start_polling();
    PyThreadState *state = PyEval_SaveThread();
    Py_ssize_t steps = run_steps(loop, slots);
    PyEval_RestoreThread(state);
    return steps;
}

PyObject *ingot_program_loop(PyObject *program, PyObject *arguments) {
    Loop loop = {.program = (Program *)program};
    int reverse, has_flag;
    if (!PyArg_ParseTuple(arguments, "O!O!O!nnnpp:loop", &PyTuple_Type, &loop.inputs, &PyTuple_Type, &loop.first, &PyTuple_Type,
                          &loop.second, &loop.carries, &loop.slices, &loop.length, &reverse, &has_flag))
        return NULL;
    loop.reverse = reverse;
    loop.has_flag = has_flag;
    Program *self = loop.program;
    if (!ingot_program_can_loop(self) || PyTuple_GET_SIZE(loop.inputs) != self->input_count ||
        PyTuple_GET_SIZE(loop.first) != self->output_count || PyTuple_GET_SIZE(loop.second) != self->output_count) {
        PyErr_SetString(PyExc_RuntimeError, "this program cannot loop over these arrays.");
        return NULL;
    }
    char **slots = PyMem_Malloc((size_t)(self->slot_count + self->argument_count) * sizeof *slots);
    loop.moving = PyMem_Malloc((size_t)(self->input_count + self->output_count + 1) * sizeof *loop.moving);
    void *arena = self->arena == 0 ? NULL : ingot_allocate(self->arena);
    Py_ssize_t steps = -1;
    if (slots == NULL || loop.moving == NULL)
        PyErr_NoMemory();
    else if (self->arena > 0 && arena == NULL)
        ingot_no_memory(self->arena);
    else
        steps = run_loop(&loop, slots, arena);
    if (arena != NULL)
        ingot_release(arena, self->arena);
    PyMem_Free(loop.moving);
    PyMem_Free(slots);
    return steps < 0 ? NULL : PyLong_FromSsize_t(steps);
}
