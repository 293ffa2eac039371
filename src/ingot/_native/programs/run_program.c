/* Runs programs: kernels, BLAS calls and host steps in order on planned memory, in one call. */
#include "programs/program.h"

#include "communication/progress.h"
#include "memory/allocator.h"
#include "memory/buffer.h"
#include "programs/loop.h"
#include "routines/routine.h"
#include "threads/interrupt.h"
#include "numpy_api.h"
#include "tuning.h"

/* One run of a program and its progress. */
typedef struct {
    Program *program;
    char **slots; /* addresses of all values, then room for the arguments of a kernel */
    char *fast_slots[96];
    PyObject *outputs, *owners, *arena, *result;
    void *memory;           /* of the arena, unless it is a Python object */
    PyObject *profile;      /* bytes that hold `times`, only while a profile runs */
    int64_t *times;         /* begin and end of the program, then of each instruction */
    Py_ssize_t instruction; /* the next one */
    int64_t done;           /* progress of a kernel's parallel loop */
    Progress progress;      /* progress of a product */
    PyObject **panels;      /* Buffers, one for each of the program's kept panels */
    bool *has_panels;       /* which of them hold what an earlier run computed */
} Run;

int64_t ingot_run_kernel(const Instruction *instruction, char **arguments, int64_t done) {
    KernelFunction function = (KernelFunction)instruction->function;
    int64_t parts = instruction->parts, grain = instruction->grain;
    if (parts <= grain) {
        function(arguments, 0, parts, 0);
        return parts;
    }
    int64_t first = (grain > 1 ? FIRST_BLOCK_GRAINS * grain : FIRST_BLOCK_ITERATIONS) * ingot_num_threads();
    return ingot_interruptible_for(function, arguments, done, parts, grain, first);
}

/* The addresses of all arguments of an instruction. */
static char **addresses(Run *run, const Instruction *instruction) {
    char **slots = run->slots, **arguments = slots + run->program->slot_count;
    for (int i = 0; i < instruction->count; i++)
        arguments[i] = slots[instruction->arguments[i].slot] + instruction->arguments[i].offset;
    return arguments;
}

/* False, with an exception, if it was interrupted. */
static bool run_kernel(Run *run, const Instruction *instruction) {
    char **arguments = addresses(run, instruction);
    run->done = ingot_run_kernel(instruction, arguments, run->done);
    return run->done == instruction->parts;
}

static char *address(const Argument *argument, char **slots) {
    return slots[argument->slot] + argument->offset;
}

static bool run_gemm(Run *run, const Instruction *instruction) {
    const Argument *arguments = instruction->arguments;
    return ingot_multiply(instruction->product, address(&arguments[0], run->slots), address(&arguments[1], run->slots),
                          address(&arguments[2], run->slots), &run->progress);
}

/* 0, or LOOP_INTERRUPTED or LOOP_FAILED. */
static int run_native(Run *run, const Instruction *instruction) {
    if (instruction->kind == NESTED) /* starts over if it was interrupted, like a routine */
        return ingot_run_nested(instruction->nested, addresses(run, instruction));
    if (instruction->kind == ROUTINE)
        return ingot_run_routine(instruction->nested, addresses(run, instruction));
    bool complete = instruction->kind == KERNEL ? run_kernel(run, instruction) : run_gemm(run, instruction);
    if (complete) {
        run->done = 0;
        run->progress = (Progress){0};
    }
    return complete ? 0 : LOOP_INTERRUPTED;
}

/* Runs instructions up to `end`; -1 if one fails or is interrupted, which `run` records. */
static int run_instructions(Run *run, Py_ssize_t end) {
    Program *self = run->program;
    int64_t *times = run->times == NULL ? NULL : run->times + 2;
    PyThreadState *state = NULL;
    int status = 0;
    while (run->instruction < end && status == 0) {
        Py_ssize_t i = run->instruction;
        Instruction *instruction = &self->instructions[i];
        if (times != NULL)
            times[2 * i] = ingot_now();
        bool fails = instruction->kind == CHECK && *address(&instruction->arguments[0], run->slots);
        if (instruction->kind == HOST || fails) {
            if (state != NULL) {
                PyEval_RestoreThread(state);
                state = NULL;
            }
            status = fails ? ingot_raise_check(self, instruction, run->owners)
                           : ingot_run_host(self, instruction, run->owners, run->slots);
        } else if (instruction->kind != CHECK && !(instruction->kept > 0 && run->has_panels[instruction->kept - 1])) {
            if (state == NULL && self->releases_gil)
                state = PyEval_SaveThread();
            status = run_native(run, instruction);
            ingot_make_progress();
            if (status == LOOP_FAILED) {
                if (state != NULL) {
                    PyEval_RestoreThread(state);
                    state = NULL;
                }
                status = ingot_run_instead(self, instruction, run->owners, run->slots);
            }
        }
        if (times != NULL)
            times[2 * i + 1] = ingot_now();
        if (status < 0)
            break;
        run->instruction++;
        if (state != NULL && run->instruction < end && ingot_should_stop())
            status = -1;
    }
    if (state != NULL)
        PyEval_RestoreThread(state);
    return status;
}

/* The inputs' addresses; 0 if one does not have the compiled layout, -1 on error. */
static int read_inputs(Program *self, PyObject *const *inputs, Py_ssize_t count, char **slots) {
    if (count != self->input_count) {
        PyErr_Format(PyExc_RuntimeError, "a program takes %zd arrays, not %zd.", self->input_count, count);
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->input_count; i++) {
        PyObject *array = inputs[i];
        if (!is_ndarray(array)) {
            PyErr_SetString(PyExc_TypeError, "a program takes ndarrays.");
            return -1;
        }
        if (!self->any_layout && !is_contiguous(array))
            return 0;
        slots[i] = ndarray_data(array);
    }
    return 1;
}

/* A new array: numpy.empty without the parsing of its arguments, which takes longer than small kernels. */
static PyObject *make_output(PyObject *shape, PyObject *dtype) {
    npy_intp lengths[NPY_MAXDIMS];
    Py_ssize_t axes = PyTuple_GET_SIZE(shape);
    if (axes > NPY_MAXDIMS)
        return PyErr_Format(PyExc_ValueError, "arrays have at most %d axes, not %zd.", NPY_MAXDIMS, axes);
    for (Py_ssize_t axis = 0; axis < axes; axis++) {
        lengths[axis] = PyLong_AsSsize_t(PyTuple_GET_ITEM(shape, axis));
        if (lengths[axis] < 0)
            return PyErr_Occurred() ? NULL : PyErr_Format(PyExc_ValueError, "axes have no negative lengths.");
    }
    return PyArray_Empty((int)axes, lengths, (PyArray_Descr *)Py_NewRef(dtype), 0);
}

static PyObject *make_outputs(Program *self, PyObject *const *inputs, const bool *donated, char **slots) {
    PyObject *outputs = PyTuple_New(self->output_count);
    for (Py_ssize_t i = 0; outputs != NULL && i < self->output_count; i++) {
        int donor = donated == NULL ? -1 : self->donors[i];
        if (donor >= 0 && donated[donor]) {
            ingot_forget_panels(inputs[donor]);
            PyTuple_SET_ITEM(outputs, i, Py_NewRef(inputs[donor]));
            slots[self->input_count + i] = slots[donor];
            continue;
        }
        PyObject *array = make_output(PyTuple_GET_ITEM(self->output_shapes, i), PyTuple_GET_ITEM(self->output_dtypes, i));
        if (array == NULL) {
            Py_CLEAR(outputs);
            break;
        }
        PyTuple_SET_ITEM(outputs, i, array);
        slots[self->input_count + i] = ndarray_data(array);
    }
    return outputs;
}

/* A constant that depends on shapes as an ndarray. */
static PyObject *own_constant(const Program *self, const OwnConstant *own) {
    PyObject *prototype = PyTuple_GET_ITEM(self->constants, own->slot - self->input_count - self->output_count);
    PyObject *made = PyArray_NewLikeArray(as_ndarray(prototype), NPY_CORDER, NULL, 0);
    if (made != NULL)
        memcpy(ndarray_data(made), own->data, (size_t)PyArray_NBYTES(as_ndarray(made)));
    return made;
}

/* All slots as a list of Python objects, for views. */
static PyObject *list_owners(Program *self, PyObject *const *inputs, PyObject *outputs, PyObject *arena) {
    PyObject *owners = PyList_New(self->slot_count);
    if (owners == NULL)
        return NULL;
    for (Py_ssize_t i = 0; i < self->slot_count; i++) {
        Py_ssize_t output = i - self->input_count, constant = output - self->output_count;
        PyObject *item = Py_None;
        if (output < 0)
            item = inputs[i];
        else if (constant < 0)
            item = PyTuple_GET_ITEM(outputs, output);
        else if (constant < self->constant_count)
            item = PyTuple_GET_ITEM(self->constants, constant);
        else if (i == self->arena_slot && arena != NULL)
            item = arena;
        PyList_SET_ITEM(owners, i, Py_NewRef(item));
    }
    for (Py_ssize_t i = 0; owners != NULL && i < self->own_count; i++) {
        PyObject *constant = own_constant(self, &self->own[i]);
        if (constant == NULL || PyList_SetItem(owners, self->own[i].slot, constant) < 0)
            Py_CLEAR(owners);
    }
    return owners;
}

/* The array that panels are computed from, if they may be kept for it, or NULL. Nobody changes constants. */
static PyObject *kept_source(const Program *self, const KeptPanels *kept, PyObject *const *inputs, const bool *donated) {
    if (kept->source >= self->input_count)
        return PyTuple_GET_ITEM(self->constants, kept->source - self->input_count - self->output_count);
    PyObject *array = inputs[kept->source];
    bool is_donated = donated != NULL && donated[kept->source];
    return !is_donated && ingot_may_keep(array) ? array : NULL;
}

/* Finds the panels that earlier runs kept for these inputs, and memory for the others. */
static int take_panels(Run *run, PyObject *const *inputs, const bool *donated) {
    Program *self = run->program;
    if (self->kept_count == 0)
        return 0;
    run->panels = PyMem_Calloc((size_t)self->kept_count, sizeof *run->panels + sizeof *run->has_panels);
    if (run->panels == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    run->has_panels = (bool *)(run->panels + self->kept_count);
    for (Py_ssize_t i = 0; i < self->kept_count; i++) {
        const KeptPanels *kept = &self->kept[i];
        ENGINE_BEGIN
        PyObject *array = kept_source(self, kept, inputs, donated);
        if (array != NULL)
            run->panels[i] = ingot_kept_panels(kept, array);
        ENGINE_END
        run->has_panels[i] = run->panels[i] != NULL;
        if (run->panels[i] == NULL && (run->panels[i] = ingot_buffer_new(kept->nbytes)) == NULL)
            return -1;
        run->slots[kept->slot] = ingot_buffer_data(run->panels[i]);
    }
    return 0;
}

/* Keeps what a run has computed from its inputs, for the next one. */
static void keep_panels(const Run *run, PyObject *const *inputs, const bool *donated) {
    Program *self = run->program;
    for (Py_ssize_t i = 0; i < self->kept_count; i++) {
        ENGINE_BEGIN
        PyObject *array = run->has_panels[i] ? NULL : kept_source(self, &self->kept[i], inputs, donated);
        if (array != NULL)
            ingot_keep_panels(&self->kept[i], array, run->panels[i]);
        ENGINE_END
    }
}

/* Allocates all memory that the program needs; 0 if an input does not have the compiled layout, -1 on error. */
static int begin_run(Run *run, PyObject *const *inputs, Py_ssize_t count, const bool *donated) {
    Program *self = run->program;
    char **slots = run->slots;
    int status = read_inputs(self, inputs, count, slots);
    if (status != 1)
        return status;
    if ((run->outputs = make_outputs(self, inputs, donated, slots)) == NULL)
        return -1;
    for (Py_ssize_t i = 0; i < self->constant_count; i++)
        slots[self->input_count + self->output_count + i] = ndarray_data(PyTuple_GET_ITEM(self->constants, i));
    for (Py_ssize_t i = 0; i < self->own_count; i++)
        slots[self->own[i].slot] = self->own[i].data;
    if (take_panels(run, inputs, donated) < 0)
        return -1;
    bool needs_owners = self->has_host || self->result_count >= 0;
    if (self->arena > 0 && needs_owners) {
        if ((run->arena = ingot_buffer_new(self->arena)) == NULL)
            return -1;
        slots[self->arena_slot] = ingot_buffer_data(run->arena);
    } else if (self->arena > 0) {
        if ((run->memory = ingot_allocate(self->arena)) == NULL) {
            ingot_no_memory(self->arena);
            return -1;
        }
        slots[self->arena_slot] = run->memory;
    }
    if (needs_owners && (run->owners = list_owners(self, inputs, run->outputs, run->arena)) == NULL)
        return -1;
    return 1;
}

static void end_run(Run *run) {
    Py_XDECREF(run->profile);
    if (run->memory != NULL)
        ingot_release(run->memory, run->program->arena);
    Py_XDECREF(run->arena);
    Py_XDECREF(run->owners);
    Py_XDECREF(run->outputs);
    for (Py_ssize_t i = 0; run->panels != NULL && i < run->program->kept_count; i++)
        Py_XDECREF(run->panels[i]);
    PyMem_Free(run->panels);
    if (run->slots != run->fast_slots)
        PyMem_Free(run->slots);
}

/* ---- runs that were interrupted after they had written to donated memory ---- */

typedef struct {
    PyObject_HEAD
    Run run;
    PyObject *inputs; /* tuple of ndarrays, whose memory is used */
} Suspended;

static PyTypeObject *Suspended_Type;

/* Whether an output has reused the memory of an input and something may have been written there. */
static bool has_overwritten(const Run *run, const bool *donated) {
    const Program *self = run->program;
    bool begun = run->done > 0 || run->progress.done > 0;
    for (Py_ssize_t i = 0; donated != NULL && i < self->output_count; i++) {
        if (self->donors[i] >= 0 && donated[self->donors[i]] &&
            (run->instruction > self->first_use[i] || (run->instruction == self->first_use[i] && begun)))
            return true;
    }
    return false;
}

/* Moves a run and everything it owns into an object; NULL without a new exception if memory is exhausted. */
static PyObject *suspend(Run *run, PyObject *const *inputs, Py_ssize_t count) {
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    Suspended *self = (Suspended *)Suspended_Type->tp_alloc(Suspended_Type, 0);
    PyObject *held = self == NULL ? NULL : PyTuple_New(count);
    if (held != NULL) {
        for (Py_ssize_t i = 0; i < count; i++)
            PyTuple_SET_ITEM(held, i, Py_NewRef(inputs[i]));
        self->inputs = held;
        self->run = *run;
        Py_INCREF(run->program);
        Py_CLEAR(self->run.profile);
        self->run.times = NULL;
        if (run->slots == run->fast_slots)
            self->run.slots = self->run.fast_slots;
    } else {
        Py_CLEAR(self);
        PyErr_Clear();
    }
    PyErr_Restore(type, value, traceback);
    return (PyObject *)self;
}

PyObject *ingot_resume_program(PyObject *suspended) {
    Run *run = &((Suspended *)suspended)->run;
    int status;
    ENGINE_PAUSE
    status = run_instructions(run, run->program->instruction_count);
    ENGINE_RESUME
    return status < 0 ? NULL : Py_NewRef(run->result);
}

static void suspended_dealloc(Suspended *self) {
    if (self->inputs != NULL) {
        Program *program = self->run.program;
        end_run(&self->run);
        Py_XDECREF(self->run.result);
        Py_DECREF(program);
        Py_DECREF(self->inputs);
    }
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot suspended_slots[] = {
    {Py_tp_dealloc, suspended_dealloc},
    {Py_tp_doc, "An interrupted run of a program, which can be resumed."},
    {0, NULL},
};

static PyType_Spec suspended_spec = {
    .name = "ingot._native.Suspended",
    .basicsize = sizeof(Suspended),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = suspended_slots,
};

/* ---- the interface ---- */

/* Adds to the current exception which instruction failed. */
static void explain(Program *self, Py_ssize_t instruction) {
    PyObject *type, *value, *traceback, *about;
    PyErr_Fetch(&type, &value, &traceback);
    ENGINE_BEGIN
    about = ingot_program_about(self);
    ENGINE_END
    PyErr_Restore(type, value, traceback); /* replaces an error of `about` */
    if (about != NULL)
        ingot_explain_instruction(about, instruction);
    Py_XDECREF(about);
}

static void report(Program *self, PyObject *times) {
    ENGINE_BEGIN
    PyObject *about = ingot_program_about(self);
    if (about == NULL)
        PyErr_WriteUnraisable((PyObject *)self);
    else
        ingot_report_program(about, Py_NewRef(times));
    Py_XDECREF(about);
    ENGINE_END
}

static PyObject *run_once(Program *self, PyObject *const *inputs, Py_ssize_t count, const bool *donated, bool is_profiled,
                          PyObject **suspended) {
    Run run;
    memset(&run, 0, offsetof(Run, fast_slots));
    memset(&run.outputs, 0, sizeof run - offsetof(Run, outputs));
    run.program = self;
    Py_ssize_t pointers = self->slot_count + self->argument_count;
    run.slots = pointers <= (Py_ssize_t)Py_ARRAY_LENGTH(run.fast_slots) ? run.fast_slots
                                                                        : PyMem_Malloc((size_t)pointers * sizeof *run.slots);
    if (run.slots == NULL)
        return PyErr_NoMemory();
    PyObject *result = NULL;
    if (is_profiled) {
        run.profile = PyBytes_FromStringAndSize(NULL, (self->instruction_count + 1) * 2 * (Py_ssize_t)sizeof *run.times);
        if (run.profile == NULL)
            goto done;
        run.times = (int64_t *)(void *)PyBytes_AS_STRING(run.profile);
        run.times[0] = ingot_now();
    }
    int status = begin_run(&run, inputs, count, donated);
    if (status == 0)
        result = Py_NewRef(Py_NotImplemented);
    /* Results are created as soon as all memory is allocated: everything that can fail, if only by a signal that arrives
     * in Python code, happens before donated inputs are overwritten. */
    if (status < 0)
        explain(self, -1);
    if (status != 1)
        goto done;
    if (run_instructions(&run, self->host_count) < 0) {
        explain(self, run.instruction);
        goto done;
    }
    result = self->result_count < 0
                 ? Py_NewRef(run.outputs)
                 : ingot_make_views(self, self->view_count - self->result_count, self->result_count, run.owners);
    if (result != NULL && run_instructions(&run, self->instruction_count) < 0) {
        run.result = result; /* kept with the rest of the run, or dropped */
        result = NULL;
        if (run.instruction < self->instruction_count)
            explain(self, run.instruction);
        if (has_overwritten(&run, donated) && (*suspended = suspend(&run, inputs, count)) != NULL)
            return NULL;
        Py_CLEAR(run.result);
    }
    if (result != NULL)
        keep_panels(&run, inputs, donated);
    if (run.times != NULL && result != NULL) {
        run.times[1] = ingot_now();
        report(self, run.profile);
    }
done:
    end_run(&run);
    return result;
}

/* Without the engine lock: the caller owns the inputs, and the memory that is written belongs to the run. */
PyObject *ingot_program_run(PyObject *program, PyObject *const *inputs, Py_ssize_t count, const bool *donated,
                            PyObject **suspended) {
    bool is_profiled = callbacks.ran_program != NULL;
    PyObject *result;
    ENGINE_PAUSE
    result = run_once((Program *)program, inputs, count, donated, is_profiled, suspended);
    ENGINE_RESUME
    return result;
}

int ingot_add_run_program(PyObject *Py_UNUSED(module)) {
    Suspended_Type = (PyTypeObject *)PyType_FromSpec(&suspended_spec);
    return Suspended_Type == NULL ? -1 : 0;
}
