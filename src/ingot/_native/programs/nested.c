/* NestedProgram: a loop or branch as an instruction of another program, run without Python.
 *
 * All memory that it needs besides its operands and results is one block of the outer program's arena: the table of
 * addresses, the second buffers of carried values, and the arena of the program that it runs. */
#include "programs/loop.h"

#include <structmember.h>

enum { SCAN, WHILE, BRANCH, NESTED_KINDS };

static const char *const kinds[NESTED_KINDS] = {"scan", "while", "branch"};

typedef struct {
    PyObject_HEAD
    int kind;
    PyObject *programs; /* a body; the condition of a while loop and its body; or one for each branch */
    Py_ssize_t count;
    Py_ssize_t *invariant; /* of each program: instructions that run in the first step only */
    Py_ssize_t carries, slices, length;
    bool reverse, can_fail;
    Py_ssize_t *bytes; /* of each carried value, of a slice of each sliced input, and of each stacked output */
    Py_ssize_t input_count, output_count;
    /* where in the scratch memory: */
    size_t table, buffers, arena;
    Py_ssize_t scratch; /* bytes of it */
} Nested;

PyTypeObject *Nested_Type;

static Program *program_of(const Nested *self, Py_ssize_t i) {
    return (Program *)PyTuple_GET_ITEM(self->programs, i);
}

static size_t aligned(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static bool stays_in_place(const Program *program, Py_ssize_t carry) {
    return program->donors[carry] == carry;
}

/* ---- running it, without the GIL ---- */

/* What a number of steps, or what stands for it, says about a run. */
static int status_of(Py_ssize_t steps) {
    return steps < 0 ? (int)steps : 0;
}

/* Runs a loop, whose table is made in the scratch memory unless it needs none. */
static Py_ssize_t run_steps(const Nested *self, Loop *loop, char *scratch) {
    if (ingot_loop_repeats(loop))
        return ingot_loop_repeat(loop);
    ingot_loop_begin(loop, scratch + self->table, scratch + self->arena);
    return ingot_loop_run(loop, false);
}

/* A program run once: 0, LOOP_INTERRUPTED or LOOP_FAILED. */
static int run_once(const Nested *self, Py_ssize_t i, char *const *inputs, char *const *outputs, bool has_flag, char *scratch) {
    Loop loop = {.program = program_of(self, i),
                 .inputs = inputs,
                 .first = outputs,
                 .second = outputs,
                 .slice_bytes = self->bytes,
                 .length = 1,
                 .has_flag = has_flag};
    return status_of(run_steps(self, &loop, scratch));
}

static void copy_carries(const Nested *self, char *const *from, char *const *to) {
    for (Py_ssize_t i = 0; i < self->carries; i++)
        memcpy(to[i], from[i], (size_t)self->bytes[i]);
}

static int run_loop(const Nested *self, char *const *sources, char *const *results, char *scratch) {
    Program *program = program_of(self, self->count - 1);
    bool has_flag = self->kind == WHILE;
    char **inputs = (char **)(void *)scratch, **first = inputs + program->input_count, **second = first + program->output_count;
    memcpy(inputs, sources, (size_t)program->input_count * sizeof *inputs);
    memcpy(first, results, (size_t)self->output_count * sizeof *first);
    memcpy(second, results, (size_t)self->output_count * sizeof *second);
    char *buffer = scratch + self->buffers;
    if (has_flag) {
        first[self->carries] = buffer;
        buffer += 64;
    }
    bool ends_in_second = !has_flag && self->length % 2 == 0;
    for (Py_ssize_t i = 0; i < self->carries; i++) {
        if (stays_in_place(program, i)) {
            memcpy(results[i], sources[i], (size_t)self->bytes[i]);
            inputs[i] = results[i];
            continue;
        }
        *(ends_in_second ? &first[i] : &second[i]) = buffer;
        buffer += aligned((size_t)self->bytes[i]);
    }
    Loop loop = {.program = program,
                 .inputs = inputs,
                 .first = first,
                 .second = second,
                 .slice_bytes = self->bytes + self->carries,
                 .carries = self->carries,
                 .slices = self->slices,
                 .length = self->length,
                 .invariant = self->invariant[self->count - 1],
                 .reverse = self->reverse,
                 .has_flag = has_flag};
    Py_ssize_t steps = run_steps(self, &loop, scratch);
    for (Py_ssize_t i = 0; has_flag && steps > 0 && steps % 2 == 0 && i < self->carries; i++) {
        if (second[i] != results[i])
            memcpy(results[i], second[i], (size_t)self->bytes[i]);
    }
    return status_of(steps);
}

int ingot_run_nested(const PyObject *nested, char *const *arguments) {
    const Nested *self = (const Nested *)nested;
    char *const *results = arguments + self->input_count;
    char *scratch = results[self->output_count];
    if (self->kind == BRANCH) {
        int32_t index;
        memcpy(&index, arguments[0], sizeof index);
        Py_ssize_t chosen = index < 0 ? 0 : (index < self->count ? index : self->count - 1);
        return run_once(self, chosen, arguments + 1, results, false, scratch);
    }
    bool begins = self->length != 0;
    if (begins && self->kind == WHILE) {
        char *flag = scratch + self->buffers;
        int status = run_once(self, 0, arguments, &flag, true, scratch);
        if (status < 0)
            return status;
        begins = *(bool *)flag;
    }
    if (begins)
        return run_loop(self, arguments, results, scratch);
    copy_carries(self, arguments, results);
    return 0;
}

/* ---- construction ---- */

Py_ssize_t ingot_nested_arguments(const PyObject *nested) {
    const Nested *self = (const Nested *)nested;
    return self->input_count + self->output_count + 1;
}

static Py_ssize_t *read_sizes(PyObject *tuple, Py_ssize_t count) {
    Py_ssize_t *sizes = PyMem_Malloc(((size_t)count + 1) * sizeof *sizes);
    if (sizes == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        sizes[i] = i < PyTuple_GET_SIZE(tuple) ? PyLong_AsSsize_t(PyTuple_GET_ITEM(tuple, i)) : -1;
        if (sizes[i] < 0) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "a nested program needs a size, not negative, for each of its arrays.");
            PyMem_Free(sizes);
            return NULL;
        }
    }
    return sizes;
}

/* Whether all programs can be nested and have the inputs and outputs of this kind. */
static bool fits(const Nested *self) {
    bool is_while = self->kind == WHILE;
    if (self->count < 1 || (self->kind == SCAN && self->count != 1) || (is_while && self->count != 2))
        return false;
    const Program *last = program_of(self, self->count - 1);
    for (Py_ssize_t i = 0; i < self->count; i++) {
        PyObject *program = PyTuple_GET_ITEM(self->programs, i);
        if (!Py_IS_TYPE(program, Program_Type) || !ingot_program_can_loop((Program *)program) ||
            ((Program *)program)->input_count != last->input_count)
            return false;
        if (((Program *)program)->output_count != (is_while && i == 0 ? 1 : last->output_count))
            return false;
    }
    return self->carries >= 0 && self->slices >= 0 && self->carries + self->slices <= last->input_count &&
           self->carries <= last->output_count - is_while && (self->length >= 0 || is_while) &&
           (self->kind != BRANCH || self->carries + self->slices == 0) && (!is_while || self->slices == 0);
}

static void lay_out(Nested *self) {
    const Program *last = program_of(self, self->count - 1);
    size_t table = 0, arena = 0;
    for (Py_ssize_t i = 0; i < self->count; i++) {
        self->can_fail |= program_of(self, i)->has_host;
        size_t bytes = ingot_loop_table_bytes(program_of(self, i));
        table = bytes > table ? bytes : table;
        arena = program_of(self, i)->arena > arena ? program_of(self, i)->arena : arena;
    }
    self->table = aligned((size_t)(last->input_count + 2 * last->output_count) * sizeof(char *));
    self->buffers = self->table + aligned(table);
    size_t end = self->buffers + (self->kind == WHILE ? 64 : 0);
    for (Py_ssize_t i = 0; i < self->carries; i++)
        end += stays_in_place(last, i) ? 0 : aligned((size_t)self->bytes[i]);
    self->arena = end;
    self->scratch = (Py_ssize_t)(end + arena);
}

/* NestedProgram(kind, programs, invariant, carries, slices, length, reverse, bytes) */
static PyObject *nested_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    const char *kind;
    PyObject *programs, *invariant, *bytes;
    Py_ssize_t carries, slices, length;
    int reverse;
    if (!PyArg_ParseTuple(arguments, "sO!O!nnnpO!:NestedProgram", &kind, &PyTuple_Type, &programs, &PyTuple_Type, &invariant,
                          &carries, &slices, &length, &reverse, &PyTuple_Type, &bytes))
        return NULL;
    Nested *self = (Nested *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    while (self->kind < NESTED_KINDS && strcmp(kinds[self->kind], kind) != 0)
        self->kind++;
    self->programs = Py_NewRef(programs);
    self->count = PyTuple_GET_SIZE(programs);
    self->carries = carries;
    self->slices = slices;
    self->length = length;
    self->reverse = reverse;
    if (self->kind == NESTED_KINDS || !fits(self)) {
        PyErr_SetString(PyExc_ValueError, "these programs are not those of a loop or branch.");
        goto failed;
    }
    const Program *last = program_of(self, self->count - 1);
    self->input_count = last->input_count + (self->kind == BRANCH);
    self->output_count = last->output_count - (self->kind == WHILE);
    if ((self->invariant = read_sizes(invariant, self->count)) == NULL ||
        (self->bytes = read_sizes(bytes, slices + self->output_count)) == NULL)
        goto failed;
    lay_out(self);
    return (PyObject *)self;
failed:
    Py_DECREF(self);
    return NULL;
}

static void nested_dealloc(Nested *self) {
    Py_XDECREF(self->programs);
    PyMem_Free(self->invariant);
    PyMem_Free(self->bytes);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMemberDef members[] = {
    {"scratch", T_PYSSIZET, offsetof(Nested, scratch), READONLY, "The bytes of scratch memory that it needs."},
    {"can_fail", T_BOOL, offsetof(Nested, can_fail), READONLY, "Whether a check or a routine in it may fail."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, nested_new},
    {Py_tp_members, members},
    {Py_tp_dealloc, nested_dealloc},
    {Py_tp_doc,
     "NestedProgram(kind, programs, invariant, carries, slices, length, reverse, bytes): a loop or branch that is an "
     "instruction of another program. `kind` is scan, while (programs: condition and body) or branch; `bytes` are "
     "those of each carried value, of a slice of each sliced input, and of each stacked output."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.NestedProgram",
    .basicsize = sizeof(Nested),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int ingot_add_nested(PyObject *module) {
    Nested_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    return Nested_Type == NULL ? -1 : PyModule_AddObjectRef(module, "NestedProgram", (PyObject *)Nested_Type);
}
