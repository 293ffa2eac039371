/* Loops around programs: the instructions of a body, repeated with addresses that change from step to step. */
#include "programs/program.h"

#include "memory/allocator.h"
#include "memory/buffer.h"
#include "threads/interrupt.h"
#include "numpy_api.h"
#include "tuning.h"

bool ingot_program_can_loop(const Program *self) {
    return !self->has_host && self->result_count < 0 && !self->any_layout && self->kept_count == 0;
}

/* One instruction, with the addresses of its arguments. */
typedef struct {
    const Instruction *instruction;
    char **arguments;
    bool is_small; /* a kernel that one thread runs at once */
    int64_t nanoseconds;
} Call;

/* An argument that advances by a slice per step, forwards or backwards. */
typedef struct {
    char **argument;
    Py_ssize_t bytes;
} Moving;

/* An argument in a carried value, which alternates between two buffers. */
typedef struct {
    char **argument, *next[2]; /* after an even and after an odd step */
} Alternating;

/* A loop around a program. Carried values alternate between the buffers `first` and `second`. */
typedef struct {
    Program *program;
    PyObject *inputs, *first, *second; /* tuples of ndarrays */
    Py_ssize_t carries, slices;
    Py_ssize_t length;    /* -1: until the flag is clear */
    Py_ssize_t invariant; /* instructions, the first ones, that run in the first step only */
    bool reverse, has_flag;
    bool all_small; /* iterations are too short to poll for signals in each */
    void *block;    /* the memory of what follows */
    Call *calls;
    Moving *moving;
    Alternating *alternating;
    Py_ssize_t moving_count, alternating_count;
} Loop;

static char *data_of(PyObject *tuple, Py_ssize_t i) {
    return ndarray_data(PyTuple_GET_ITEM(tuple, i));
}

static bool run_call(const Call *call) {
    const Instruction *instruction = call->instruction;
    if (call->is_small) {
        ((KernelFunction)instruction->function)(call->arguments, 0, instruction->parts, 0);
        return true;
    }
    if (instruction->kind == KERNEL)
        return ingot_run_kernel(instruction, call->arguments, 0) == instruction->parts;
    Progress progress = {0};
    return ingot_multiply(instruction->product, call->arguments[0], call->arguments[1], call->arguments[2], &progress);
}

static bool run_timed(Call *call) {
    int64_t begin = ingot_now();
    bool complete = run_call(call);
    call->nanoseconds += ingot_now() - begin;
    return complete;
}

static void advance(const Loop *loop, Py_ssize_t step) {
    for (Py_ssize_t i = 0; i < loop->alternating_count; i++)
        *loop->alternating[i].argument = loop->alternating[i].next[step & 1];
    for (Py_ssize_t i = 0; i < loop->moving_count; i++)
        *loop->moving[i].argument += loop->moving[i].bytes;
}

/* The number of steps that ran; -1 with an exception if the loop was interrupted. */
static Py_ssize_t run_steps(const Loop *loop, bool is_timed) {
    Program *self = loop->program;
    Py_ssize_t count = self->instruction_count, step = 0;
    const bool *flag = loop->has_flag ? (bool *)data_of(loop->first, self->output_count - 1) : NULL;
    while (step != loop->length) {
        for (Py_ssize_t i = step == 0 ? 0 : loop->invariant; i < count; i++) {
            if (is_timed ? !run_timed(&loop->calls[i]) : !run_call(&loop->calls[i]))
                return -1;
        }
        advance(loop, step++);
        if (flag != NULL && !*flag)
            break;
        if ((!loop->all_small || step % SMALL_STEPS_PER_POLL == 0) && ingot_should_stop())
            return -1;
    }
    return step;
}

/* ---- the addresses of the first step ---- */

/* Adds an argument that lies in a slice of a stacked array. */
static char *in_slices(Loop *loop, PyObject *tuple, Py_ssize_t i, char **argument) {
    Py_ssize_t bytes = PyArray_NBYTES((PyArrayObject *)PyTuple_GET_ITEM(tuple, i)) / loop->length;
    loop->moving[loop->moving_count++] = (Moving){argument, loop->reverse ? -bytes : bytes};
    return data_of(tuple, i) + (loop->reverse ? (loop->length - 1) * bytes : 0);
}

/* Adds an argument that lies in a carried value, read or written. */
static char *in_carry(Loop *loop, Py_ssize_t i, bool is_read, char **argument, Py_ssize_t offset) {
    char *start = data_of(is_read ? loop->inputs : loop->first, i);
    char *first = data_of(loop->first, i), *second = data_of(loop->second, i);
    char *next[2] = {is_read ? first : second, is_read ? second : first};
    if (next[0] != start || next[1] != start)
        loop->alternating[loop->alternating_count++] = (Alternating){argument, {next[0] + offset, next[1] + offset}};
    return start;
}

static char *base_of(Loop *loop, int slot, char **argument, Py_ssize_t offset, char *arena) {
    Program *self = loop->program;
    Py_ssize_t output = slot - self->input_count, constant = output - self->output_count;
    if (slot < loop->carries || (output >= 0 && output < loop->carries))
        return in_carry(loop, output < 0 ? slot : output, output < 0, argument, offset);
    if (output < 0)
        return slot < loop->carries + loop->slices ? in_slices(loop, loop->inputs, slot, argument)
                                                   : data_of(loop->inputs, slot);
    if (constant < 0)
        return output < self->output_count - loop->has_flag ? in_slices(loop, loop->first, output, argument)
                                                            : data_of(loop->first, output);
    for (Py_ssize_t i = 0; i < self->own_count; i++) {
        if (self->own[i].slot == slot)
            return self->own[i].data;
    }
    return constant < self->constant_count ? data_of(self->constants, constant) : arena;
}

static int begin_loop(Loop *loop, char *arena) {
    Program *self = loop->program;
    size_t count = 0;
    for (Py_ssize_t i = 0; i < self->instruction_count; i++)
        count += (size_t)self->instructions[i].count;
    size_t calls = (size_t)self->instruction_count * sizeof(Call), alternating = count * sizeof(Alternating);
    char *block = PyMem_Malloc(calls + alternating + count * (sizeof(Moving) + sizeof(char *)) + 1);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    loop->block = block;
    loop->calls = (Call *)(void *)block;
    loop->alternating = (Alternating *)(void *)(block += calls);
    loop->moving = (Moving *)(void *)(block += alternating);
    char **arguments = (char **)(void *)(block + count * sizeof(Moving));
    loop->all_small = true;
    for (Py_ssize_t i = 0; i < self->instruction_count; i++) {
        const Instruction *instruction = &self->instructions[i];
        bool is_small = instruction->kind == KERNEL && instruction->parts <= instruction->grain;
        loop->calls[i] = (Call){instruction, arguments, is_small, 0};
        loop->all_small &= is_small;
        for (int j = 0; j < instruction->count; j++, arguments++) {
            const Argument *argument = &instruction->arguments[j];
            *arguments = base_of(loop, argument->slot, arguments, argument->offset, arena) + argument->offset;
        }
    }
    return 0;
}

/* While a profile runs: begin and end of the loop, and the time of each instruction in all steps. */
static void report_loop(const Loop *loop, Py_ssize_t steps, int64_t begin, int64_t end) {
    Program *self = loop->program;
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, (self->instruction_count + 2) * (Py_ssize_t)sizeof begin);
    PyObject *about = bytes == NULL ? NULL : ingot_program_about(self);
    if (about == NULL) {
        PyErr_WriteUnraisable((PyObject *)self);
        Py_XDECREF(bytes);
        return;
    }
    int64_t *times = (int64_t *)(void *)PyBytes_AS_STRING(bytes);
    times[0] = begin;
    times[1] = end;
    for (Py_ssize_t i = 0; i < self->instruction_count; i++)
        times[2 + i] = loop->calls[i].nanoseconds;
    ingot_report_loop(about, bytes, steps);
    Py_DECREF(about);
}

static Py_ssize_t run_loop(Loop *loop, char *arena) {
    if (begin_loop(loop, arena) < 0)
        return -1;
    bool is_timed = callbacks.ran_loop != NULL;
    int64_t begin = is_timed ? ingot_now() : 0;
    ingot_start_polling();
    PyThreadState *state = PyEval_SaveThread();
    Py_ssize_t steps = run_steps(loop, is_timed);
    PyEval_RestoreThread(state);
    if (is_timed && steps >= 0)
        report_loop(loop, steps, begin, ingot_now());
    return steps;
}

PyObject *ingot_program_loop(PyObject *program, PyObject *arguments) {
    Loop loop = {.program = (Program *)program};
    int reverse, has_flag;
    if (!PyArg_ParseTuple(arguments, "O!O!O!nnnppn:loop", &PyTuple_Type, &loop.inputs, &PyTuple_Type, &loop.first,
                          &PyTuple_Type, &loop.second, &loop.carries, &loop.slices, &loop.length, &reverse, &has_flag,
                          &loop.invariant))
        return NULL;
    loop.reverse = reverse;
    loop.has_flag = has_flag;
    Program *self = loop.program;
    if (!ingot_program_can_loop(self) || loop.invariant < 0 || PyTuple_GET_SIZE(loop.inputs) != self->input_count ||
        PyTuple_GET_SIZE(loop.first) != self->output_count || PyTuple_GET_SIZE(loop.second) != self->output_count) {
        PyErr_SetString(PyExc_RuntimeError, "this program cannot loop over these arrays.");
        return NULL;
    }
    void *arena = self->arena == 0 ? NULL : ingot_allocate(self->arena);
    Py_ssize_t steps = -1;
    if (self->arena > 0 && arena == NULL)
        ingot_no_memory(self->arena);
    else
        steps = run_loop(&loop, arena);
    if (arena != NULL)
        ingot_release(arena, self->arena);
    PyMem_Free(loop.block);
    return steps < 0 ? NULL : PyLong_FromSsize_t(steps);
}
