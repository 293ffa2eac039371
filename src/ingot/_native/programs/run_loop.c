/* Loops around programs: the instructions of a body, repeated with addresses that change from step to step. */
#include "programs/loop.h"

#include "memory/allocator.h"
#include "memory/buffer.h"
#include "routines/routine.h"
#include "threads/interrupt.h"
#include "numpy_api.h"
#include "tuning.h"

bool ingot_program_can_loop(const Program *self) {
    return self->host_count == 0 && self->result_count < 0 && !self->any_layout && self->kept_count == 0;
}

/* One instruction, with the addresses of its arguments. */
struct Call {
    const Instruction *instruction;
    char **arguments;
    bool is_small; /* a kernel that one thread runs at once */
    int64_t nanoseconds;
};

/* An argument that advances by a slice per step, forwards or backwards. */
struct Moving {
    char **argument;
    Py_ssize_t bytes;
};

/* An argument in a carried value, which alternates between two buffers. */
struct Alternating {
    char **argument, *next[2]; /* after an even and after an odd step */
};

/* 0, or LOOP_INTERRUPTED or LOOP_FAILED. */
static int run_call(const struct Call *call) {
    const Instruction *instruction = call->instruction;
    if (call->is_small) {
        ((KernelFunction)instruction->function)(call->arguments, 0, instruction->parts, 0);
        return 0;
    }
    if (instruction->kind == CHECK)
        return *call->arguments[0] ? LOOP_FAILED : 0;
    if (instruction->kind == ROUTINE)
        return ingot_run_routine(instruction->nested, call->arguments);
    if (instruction->kind == NESTED)
        return ingot_run_nested(instruction->nested, call->arguments);
    bool complete;
    if (instruction->kind == KERNEL) {
        complete = ingot_run_kernel(instruction, call->arguments, 0) == instruction->parts;
    } else {
        Progress progress = {0};
        complete = ingot_multiply(instruction->product, call->arguments[0], call->arguments[1], call->arguments[2], &progress);
    }
    return complete ? 0 : LOOP_INTERRUPTED;
}

static int run_timed(struct Call *call) {
    int64_t begin = ingot_now();
    int status = run_call(call);
    call->nanoseconds += ingot_now() - begin;
    return status;
}

static void advance(const Loop *loop, Py_ssize_t step) {
    for (Py_ssize_t i = 0; i < loop->alternating_count; i++)
        *loop->alternating[i].argument = loop->alternating[i].next[step & 1];
    for (Py_ssize_t i = 0; i < loop->moving_count; i++)
        *loop->moving[i].argument += loop->moving[i].bytes;
}

Py_ssize_t ingot_loop_run(const Loop *loop, bool is_timed) {
    Program *self = loop->program;
    Py_ssize_t count = self->instruction_count, step = 0;
    const bool *flag = loop->has_flag ? (bool *)loop->first[self->output_count - 1] : NULL;
    while (step != loop->length) {
        for (Py_ssize_t i = step == 0 ? 0 : loop->invariant; i < count; i++) {
            int status = is_timed ? run_timed(&loop->calls[i]) : run_call(&loop->calls[i]);
            if (status < 0)
                return status;
        }
        advance(loop, step++);
        if (flag != NULL && !*flag)
            break;
        if ((!loop->all_small || step % SMALL_STEPS_PER_POLL == 0) && ingot_should_stop())
            return LOOP_INTERRUPTED;
    }
    return step;
}

bool ingot_loop_repeats(const Loop *loop) {
    return loop->program->repeat != NULL && loop->invariant == 0;
}

Py_ssize_t ingot_loop_repeat(const Loop *loop) {
    Program *self = loop->program;
    const bool *flag = loop->has_flag ? (bool *)loop->first[self->output_count - 1] : NULL;
    char *const *carried = loop->inputs;
    Py_ssize_t step = 0;
    while (step != loop->length) {
        int64_t most =
            loop->length < 0 || loop->length - step > REPEATED_STEPS_PER_POLL ? REPEATED_STEPS_PER_POLL : loop->length - step;
        int64_t position = loop->reverse ? loop->length - 1 - step : step;
        int64_t ran = self->repeat(carried, loop->inputs, loop->first, self->constant_addresses, ingot_should_stop, position,
                                   loop->reverse ? -1 : 1, most);
        if (ran < 0)
            return ran; /* LOOP_INTERRUPTED or LOOP_FAILED */
        step += ran;
        carried = loop->first;
        if (flag != NULL && !*flag)
            break;
        if (ran == REPEATED_STEPS_PER_POLL && ingot_should_stop())
            return LOOP_INTERRUPTED;
    }
    for (Py_ssize_t i = 0; step % 2 == 0 && i < loop->carries; i++) {
        if (loop->second[i] != loop->first[i])
            memcpy(loop->second[i], loop->first[i], (size_t)self->carry_bytes[i]);
    }
    return step;
}

/* ---- the addresses of the first step ---- */

/* Adds an argument that lies in a slice of a stacked array. */
static char *in_slices(Loop *loop, char *data, Py_ssize_t bytes, char **argument) {
    if (loop->length == 1)
        return data;
    loop->moving[loop->moving_count++] = (struct Moving){argument, loop->reverse ? -bytes : bytes};
    return data + (loop->reverse ? (loop->length - 1) * bytes : 0);
}

/* Adds an argument that lies in a carried value, read or written. */
static char *in_carry(Loop *loop, Py_ssize_t i, bool is_read, char **argument, Py_ssize_t offset) {
    char *first = loop->first[i], *second = loop->second[i], *start = is_read ? loop->inputs[i] : first;
    char *next[2] = {is_read ? first : second, is_read ? second : first};
    if (next[0] != start || next[1] != start)
        loop->alternating[loop->alternating_count++] = (struct Alternating){argument, {next[0] + offset, next[1] + offset}};
    return start;
}

static char *base_of(Loop *loop, int slot, char **argument, Py_ssize_t offset, char *arena) {
    Program *self = loop->program;
    Py_ssize_t output = slot - self->input_count, constant = output - self->output_count;
    if (slot < loop->carries || (output >= 0 && output < loop->carries))
        return in_carry(loop, output < 0 ? slot : output, output < 0, argument, offset);
    if (output < 0) {
        Py_ssize_t slice = slot - loop->carries;
        return slice < loop->slices ? in_slices(loop, loop->inputs[slot], loop->slice_bytes[slice], argument)
                                    : loop->inputs[slot];
    }
    if (constant < 0) {
        Py_ssize_t stacked = output - loop->carries;
        return output < self->output_count - loop->has_flag
                   ? in_slices(loop, loop->first[output], loop->slice_bytes[loop->slices + stacked], argument)
                   : loop->first[output];
    }
    for (Py_ssize_t i = 0; i < self->own_count; i++) {
        if (self->own[i].slot == slot)
            return self->own[i].data;
    }
    return constant < self->constant_count ? ndarray_data(PyTuple_GET_ITEM(self->constants, constant)) : arena;
}

static size_t argument_count(const Program *self) {
    size_t count = 0;
    for (Py_ssize_t i = 0; i < self->instruction_count; i++)
        count += (size_t)self->instructions[i].count;
    return count;
}

size_t ingot_loop_table_bytes(const Program *self) {
    size_t of_argument = sizeof(struct Alternating) + sizeof(struct Moving) + sizeof(char *);
    return (size_t)self->instruction_count * sizeof(struct Call) + argument_count(self) * of_argument + 1;
}

void ingot_loop_begin(Loop *loop, void *table, char *arena) {
    Program *self = loop->program;
    size_t count = argument_count(self);
    char *block = table;
    loop->calls = (struct Call *)(void *)block;
    loop->alternating = (struct Alternating *)(void *)(block += (size_t)self->instruction_count * sizeof *loop->calls);
    loop->moving = (struct Moving *)(void *)(block += count * sizeof *loop->alternating);
    char **arguments = (char **)(void *)(block + count * sizeof *loop->moving);
    loop->moving_count = loop->alternating_count = 0;
    loop->all_small = true;
    for (Py_ssize_t i = 0; i < self->instruction_count; i++) {
        const Instruction *instruction = &self->instructions[i];
        bool is_small = instruction->kind == KERNEL && instruction->parts <= instruction->grain;
        loop->calls[i] = (struct Call){instruction, arguments, is_small, 0};
        loop->all_small &= is_small || instruction->kind == CHECK;
        for (int j = 0; j < instruction->count; j++, arguments++) {
            const Argument *argument = &instruction->arguments[j];
            *arguments = base_of(loop, argument->slot, arguments, argument->offset, arena) + argument->offset;
        }
    }
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

static Py_ssize_t run_loop(Loop *loop, void *table, char *arena) {
    bool is_timed = callbacks.ran_loop != NULL;
    bool repeats = !is_timed && ingot_loop_repeats(loop);
    if (!repeats)
        ingot_loop_begin(loop, table, arena);
    int64_t begin = is_timed ? ingot_now() : 0;
    ingot_start_polling();
    PyThreadState *state = PyEval_SaveThread();
    Py_ssize_t steps = repeats ? ingot_loop_repeat(loop) : ingot_loop_run(loop, is_timed);
    PyEval_RestoreThread(state);
    if (is_timed && steps >= 0)
        report_loop(loop, steps, begin, ingot_now());
    return steps;
}

/* The addresses of arrays, and from `first` on the bytes of a slice of each. */
static void read_arrays(PyObject *tuple, char **addresses, Py_ssize_t first, Py_ssize_t end, Py_ssize_t length,
                        Py_ssize_t *bytes) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(tuple); i++) {
        PyObject *array = PyTuple_GET_ITEM(tuple, i);
        addresses[i] = ndarray_data(array);
        if (i >= first && i < end)
            bytes[i - first] = PyArray_NBYTES(as_ndarray(array)) / length;
    }
}

PyObject *ingot_program_loop(PyObject *program, PyObject *arguments) {
    Loop loop = {.program = (Program *)program};
    PyObject *inputs, *first, *second;
    int reverse, has_flag;
    if (!PyArg_ParseTuple(arguments, "O!O!O!nnnppn:loop", &PyTuple_Type, &inputs, &PyTuple_Type, &first, &PyTuple_Type, &second,
                          &loop.carries, &loop.slices, &loop.length, &reverse, &has_flag, &loop.invariant))
        return NULL;
    loop.reverse = reverse;
    loop.has_flag = has_flag;
    Program *self = loop.program;
    Py_ssize_t outputs = self->output_count;
    if (!ingot_program_can_loop(self) || loop.invariant < 0 || PyTuple_GET_SIZE(inputs) != self->input_count ||
        PyTuple_GET_SIZE(first) != outputs || PyTuple_GET_SIZE(second) != outputs) {
        PyErr_SetString(PyExc_RuntimeError, "this program cannot loop over these arrays.");
        return NULL;
    }
    size_t addresses = (size_t)(self->input_count + 2 * outputs) * sizeof(char *);
    size_t sizes = (size_t)(loop.slices + outputs) * sizeof(Py_ssize_t);
    char *block = PyMem_Malloc(addresses + sizes + ingot_loop_table_bytes(self));
    if (block == NULL)
        return PyErr_NoMemory();
    char **address = (char **)(void *)block;
    Py_ssize_t *bytes = (Py_ssize_t *)(void *)(block + addresses);
    loop.inputs = address;
    loop.first = address + self->input_count;
    loop.second = loop.first + outputs;
    loop.slice_bytes = bytes;
    read_arrays(inputs, address, loop.carries, loop.carries + loop.slices, loop.length, bytes);
    read_arrays(first, address + self->input_count, loop.carries, outputs - has_flag, loop.length, bytes + loop.slices);
    read_arrays(second, address + self->input_count + outputs, outputs, outputs, loop.length, bytes);
    void *arena = self->arena == 0 ? NULL : ingot_allocate(self->arena);
    Py_ssize_t steps = LOOP_INTERRUPTED;
    if (self->arena > 0 && arena == NULL)
        ingot_no_memory(self->arena);
    else
        steps = run_loop(&loop, block + addresses + sizes, arena);
    if (arena != NULL)
        ingot_release(arena, self->arena);
    PyMem_Free(block);
    return steps == LOOP_INTERRUPTED ? NULL : PyLong_FromSsize_t(steps);
}
