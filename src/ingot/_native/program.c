/* NativeProgram: runs compiled kernels, BLAS calls and host steps in order on planned memory, in one call. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "allocator.h"
#include "buffer.h"
#include "ndarray.h"
#include "pool.h"
#include "product.h"
#include <structmember.h>

typedef void (*KernelFunction)(void *arguments, int64_t begin, int64_t end, int thread);

typedef struct {
    int slot;
    Py_ssize_t offset;
} Argument;

enum { KERNEL, GEMM, HOST, CHECK };

typedef struct {
    int kind;
    void *function;               /* kernels */
    PyObject *code;               /* kernels: the MachineCode in which the function is */
    int64_t parts, grain;         /* kernels */
    int count;                    /* kernels: how many arguments; host steps: how many results */
    Argument *arguments;          /* kernels: all; BLAS: a, b, c; host steps: the result slots; checks: the flag */
    PyObject *host;               /* host steps, checks: called with the list of slots */
    Product *product;             /* BLAS */
} Instruction;

typedef struct {
    PyObject_HEAD
    Py_ssize_t input_count, output_count, constant_count, slot_count, arena_slot, instruction_count;
    PyObject *output_shapes, *output_dtypes; /* tuples; dtypes are NumPy's */
    int *donors;                             /* for each output the input whose memory it may take, or -1 */
    bool *takes;                             /* for each input whether some output may */
    PyObject *constants;                     /* tuple of ndarrays */
    PyObject *finish;                        /* None, or called with the list of slots to make the results */
    PyObject *empty;                         /* numpy.empty */
    PyObject *about;                         /* what profiles are told the instructions are */
    size_t arena;
    Py_ssize_t argument_count; /* the most that a kernel has */
    Py_ssize_t host_count;     /* instructions up to the last host step */
    bool has_host, releases_gil, any_layout;
    Instruction *instructions;
} Program;

static PyTypeObject *Program_Type;

/* `arguments` has room for those of any kernel of the program. */
static void run_kernel(const Instruction *instruction, char **slots, char **arguments) {
    for (int i = 0; i < instruction->count; i++)
        arguments[i] = slots[instruction->arguments[i].slot] + instruction->arguments[i].offset;
    KernelFunction function = (KernelFunction)instruction->function;
    if (instruction->parts <= instruction->grain)
        function(arguments, 0, instruction->parts, 0);
    else
        ingot_parallel_for(function, arguments, instruction->parts, instruction->grain);
}

static char *address(const Argument *argument, char **slots) {
    return slots[argument->slot] + argument->offset;
}

static void run_gemm(const Instruction *instruction, char **slots) {
    const Argument *arguments = instruction->arguments;
    ingot_multiply(instruction->product, address(&arguments[0], slots), address(&arguments[1], slots),
                   address(&arguments[2], slots));
}

/* Runs a host step: its results, ndarrays, take their slots. */
static int run_host(const Instruction *instruction, PyObject *owners, char **slots) {
    PyObject *results = PyObject_CallOneArg(instruction->host, owners);
    PyObject *fast = results == NULL ? NULL : PySequence_Fast(results, "a host step returns a sequence.");
    Py_XDECREF(results);
    if (fast == NULL)
        return -1;
    int status = 0;
    if (PySequence_Fast_GET_SIZE(fast) != instruction->count) {
        PyErr_SetString(PyExc_RuntimeError, "a host step returned another number of results than it has slots.");
        status = -1;
    }
    for (int i = 0; status == 0 && i < instruction->count; i++) {
        PyObject *array = PySequence_Fast_GET_ITEM(fast, i);
        int slot = instruction->arguments[i].slot;
        if (!is_ndarray(array) || !(((NumpyArray *)array)->flags & NUMPY_C_CONTIGUOUS)) {
            PyErr_SetString(PyExc_RuntimeError, "a host step must return contiguous ndarrays.");
            status = -1;
        } else {
            slots[slot] = ((NumpyArray *)array)->data;
            status = PyList_SetItem(owners, slot, Py_NewRef(array));
        }
    }
    Py_DECREF(fast);
    return status;
}

/* Lets a check whose flag is set raise its error. */
static int complain(const Instruction *instruction, PyObject *owners) {
    PyObject *result = PyObject_CallOneArg(instruction->host, owners);
    if (result != NULL) {
        Py_DECREF(result);
        PyErr_SetString(PyExc_RuntimeError, "a check failed without an error; this is a bug in ingot.");
    }
    return -1;
}

/* Runs the instructions from `begin` to before `end`. `times`, unless NULL, gets when each begins and ends. */
static int run_instructions(Program *self, Py_ssize_t begin, Py_ssize_t end, char **slots, PyObject *owners, int64_t *times) {
    PyThreadState *state = NULL;
    int status = 0;
    for (Py_ssize_t i = begin; i < end && status == 0; i++) {
        Instruction *instruction = &self->instructions[i];
        if (times != NULL)
            times[2 * i] = ingot_now();
        if (instruction->kind == HOST) {
            if (state != NULL) {
                PyEval_RestoreThread(state);
                state = NULL;
            }
            status = run_host(instruction, owners, slots);
        } else if (instruction->kind == CHECK) {
            const Argument *flag = &instruction->arguments[0];
            if (slots[flag->slot][flag->offset]) {
                if (state != NULL) {
                    PyEval_RestoreThread(state);
                    state = NULL;
                }
                status = complain(instruction, owners);
            }
        } else {
            if (state == NULL && self->releases_gil)
                state = PyEval_SaveThread();
            if (instruction->kind == KERNEL)
                run_kernel(instruction, slots, slots + self->slot_count);
            else
                run_gemm(instruction, slots);
        }
        if (times != NULL)
            times[2 * i + 1] = ingot_now();
    }
    if (state != NULL)
        PyEval_RestoreThread(state);
    return status;
}

/* The inputs' addresses; 0 if one is not laid out as compiled for, -1 on error. */
static int take_inputs(Program *self, PyObject *const *inputs, Py_ssize_t count, char **slots) {
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
        if (!self->any_layout && !(((NumpyArray *)array)->flags & NUMPY_C_CONTIGUOUS))
            return 0;
        slots[i] = ((NumpyArray *)array)->data;
    }
    return 1;
}

static PyObject *make_outputs(Program *self, PyObject *const *inputs, const bool *donated, char **slots) {
    PyObject *outputs = PyTuple_New(self->output_count);
    for (Py_ssize_t i = 0; outputs != NULL && i < self->output_count; i++) {
        int donor = donated == NULL ? -1 : self->donors[i];
        if (donor >= 0 && donated[donor]) {
            PyTuple_SET_ITEM(outputs, i, Py_NewRef(inputs[donor]));
            slots[self->input_count + i] = slots[donor];
            continue;
        }
        PyObject *arguments[2] = {PyTuple_GET_ITEM(self->output_shapes, i), PyTuple_GET_ITEM(self->output_dtypes, i)};
        PyObject *array = PyObject_Vectorcall(self->empty, arguments, 2, NULL);
        if (array == NULL) {
            Py_CLEAR(outputs);
            break;
        }
        PyTuple_SET_ITEM(outputs, i, array);
        slots[self->input_count + i] = ((NumpyArray *)array)->data;
    }
    return outputs;
}

/* All slots as a list of Python objects, for host steps and for finishing. */
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
    return owners;
}

bool ingot_is_program(PyObject *object) {
    return Py_IS_TYPE(object, Program_Type);
}

bool ingot_program_takes(PyObject *program, Py_ssize_t input) {
    return input < ((Program *)program)->input_count && ((Program *)program)->takes[input];
}

PyObject *ingot_program_run(PyObject *program, PyObject *const *inputs, Py_ssize_t count, const bool *donated) {
    Program *self = (Program *)program;
    char *fast[96];
    Py_ssize_t pointers = self->slot_count + self->argument_count;
    char **slots = pointers <= 96 ? fast : PyMem_Malloc((size_t)pointers * sizeof *slots);
    if (slots == NULL)
        return PyErr_NoMemory();
    PyObject *outputs = NULL, *owners = NULL, *arena = NULL, *result = NULL, *profile = NULL;
    void *memory = NULL;
    int64_t *times = NULL; /* of the program, then of each instruction; only while a profile runs */
    if (hooks.ran_program != NULL) {
        profile = PyBytes_FromStringAndSize(NULL, (self->instruction_count + 1) * 2 * (Py_ssize_t)sizeof *times);
        if (profile == NULL)
            goto done;
        times = (int64_t *)(void *)PyBytes_AS_STRING(profile);
        times[0] = ingot_now();
    }
    int status = take_inputs(self, inputs, count, slots);
    if (status == 0)
        result = Py_NewRef(Py_NotImplemented);
    if (status != 1)
        goto done;
    if ((outputs = make_outputs(self, inputs, donated, slots)) == NULL)
        goto done;
    for (Py_ssize_t i = 0; i < self->constant_count; i++)
        slots[self->input_count + self->output_count + i] = ((NumpyArray *)PyTuple_GET_ITEM(self->constants, i))->data;
    bool needs_owners = self->has_host || self->finish != Py_None;
    if (self->arena > 0) {
        if (needs_owners) {
            if ((arena = ingot_buffer_new(self->arena)) == NULL)
                goto done;
            slots[self->arena_slot] = ingot_buffer_data(arena);
        } else {
            if ((memory = ingot_allocate(self->arena)) == NULL) {
                ingot_no_memory(self->arena);
                goto done;
            }
            slots[self->arena_slot] = memory;
        }
    }
    if (needs_owners && (owners = list_owners(self, inputs, outputs, arena)) == NULL)
        goto done;
    /* Results are made as soon as all memory is there: what can fail, if only by a signal that arrives in Python code,
     * comes before donated inputs are overwritten. */
    int64_t *each = times == NULL ? NULL : times + 2;
    if (run_instructions(self, 0, self->host_count, slots, owners, each) < 0)
        goto done;
    result = self->finish == Py_None ? Py_NewRef(outputs) : PyObject_CallOneArg(self->finish, owners);
    if (result != NULL && run_instructions(self, self->host_count, self->instruction_count, slots, owners, each) < 0)
        Py_CLEAR(result);
    if (times != NULL && result != NULL) {
        times[1] = ingot_now();
        ingot_report_program(self->about, Py_NewRef(profile));
    }
done:
    Py_XDECREF(profile);
    if (memory != NULL)
        ingot_release(memory, self->arena);
    Py_XDECREF(arena);
    Py_XDECREF(owners);
    Py_XDECREF(outputs);
    if (slots != fast)
        PyMem_Free(slots);
    return result;
}

/* run(inputs) -> tuple of ndarrays; NotImplemented if an input is not contiguous */
static PyObject *program_run(PyObject *self, PyObject *inputs) {
    if (!PyTuple_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "a program takes a tuple of ndarrays.");
        return NULL;
    }
    return ingot_program_run(self, ((PyTupleObject *)inputs)->ob_item, PyTuple_GET_SIZE(inputs), NULL);
}

static int read_donors(Program *self, PyObject *donors) {
    self->donors = PyMem_Calloc((size_t)self->output_count + 1, sizeof *self->donors);
    self->takes = PyMem_Calloc((size_t)self->input_count + 1, sizeof *self->takes);
    if (self->donors == NULL || self->takes == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    bool fits = PyTuple_GET_SIZE(donors) == self->output_count;
    for (Py_ssize_t i = 0; fits && i < self->output_count; i++) {
        long donor = PyLong_AsLong(PyTuple_GET_ITEM(donors, i));
        fits = donor >= -1 && donor < self->input_count && !PyErr_Occurred();
        self->donors[i] = (int)donor;
        if (fits && donor >= 0)
            self->takes[donor] = true;
    }
    if (!fits && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a program needs for each output the number of an input, or -1.");
    return fits ? 0 : -1;
}

static int read_arguments(PyObject *sequence, Instruction *instruction, Py_ssize_t slot_count) {
    PyObject *fast = PySequence_Fast(sequence, "arguments are a sequence of (slot, offset).");
    if (fast == NULL)
        return -1;
    Py_ssize_t count = PySequence_Fast_GET_SIZE(fast);
    instruction->count = (int)count;
    instruction->arguments = PyMem_Calloc((size_t)count + 1, sizeof(Argument));
    int status = 0;
    if (instruction->arguments == NULL) {
        PyErr_NoMemory();
        status = -1;
    }
    for (Py_ssize_t i = 0; i < count && status == 0; i++) {
        Argument *argument = &instruction->arguments[i];
        if (!PyArg_ParseTuple(PySequence_Fast_GET_ITEM(fast, i), "in", &argument->slot, &argument->offset))
            status = -1;
        else if (argument->slot < 0 || argument->slot >= slot_count) {
            PyErr_Format(PyExc_ValueError, "there is no slot %d.", argument->slot);
            status = -1;
        }
    }
    Py_DECREF(fast);
    return status;
}

static int read_instruction(PyObject *tuple, Instruction *instruction, Py_ssize_t slot_count) {
    const char *kind = PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) > 0
                           ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, 0))
                           : NULL;
    if (kind == NULL) {
        PyErr_SetString(PyExc_TypeError, "an instruction is a tuple that begins with its kind.");
        return -1;
    }
    PyObject *arguments;
    const char *name;
    if (strcmp(kind, "kernel") == 0) {
        instruction->kind = KERNEL;
        long long parts, grain;
        PyObject *code;
        if (!PyArg_ParseTuple(tuple, "sO!LLO", &name, MachineCode_Type, &code, &parts, &grain, &arguments))
            return -1;
        instruction->code = Py_NewRef(code);
        instruction->function = ingot_code_address(code);
        instruction->parts = parts;
        instruction->grain = grain < 1 ? 1 : grain;
    } else if (strcmp(kind, "gemm") == 0) {
        instruction->kind = GEMM;
        PyObject *product;
        if (!PyArg_ParseTuple(tuple, "sO!O", &name, &PyTuple_Type, &product, &arguments))
            return -1;
        instruction->product = PyMem_Calloc(1, sizeof(Product));
        if (instruction->product == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        if (ingot_read_product(product, instruction->product) < 0)
            return -1;
    } else if (strcmp(kind, "host") == 0 || strcmp(kind, "check") == 0) {
        instruction->kind = kind[0] == 'h' ? HOST : CHECK;
        PyObject *host;
        if (!PyArg_ParseTuple(tuple, "sOO", &name, &host, &arguments))
            return -1;
        instruction->host = Py_NewRef(host);
    } else {
        PyErr_Format(PyExc_ValueError, "there is no instruction %s.", kind);
        return -1;
    }
    return read_arguments(arguments, instruction, slot_count);
}

static int read_instructions(Program *self, PyObject *list) {
    Py_ssize_t count = PyList_GET_SIZE(list);
    self->instructions = PyMem_Calloc((size_t)count + 1, sizeof(Instruction));
    if (self->instructions == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        Instruction *instruction = &self->instructions[i];
        self->instruction_count = i + 1;
        if (read_instruction(PyList_GET_ITEM(list, i), instruction, self->slot_count) < 0)
            return -1;
        self->has_host |= instruction->host != NULL;
        if (instruction->kind == HOST)
            self->host_count = i + 1;
        if (instruction->kind == KERNEL && instruction->count > self->argument_count)
            self->argument_count = instruction->count;
    }
    return 0;
}

/* NativeProgram(inputs, shapes, dtypes, donors, constants, slots, arena_slot, arena, instructions, finish, empty, releases_gil, any_layout) */
static PyObject *program_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    Py_ssize_t inputs, slots, arena_slot, arena;
    PyObject *shapes, *dtypes, *donors, *constants, *instructions, *finish, *empty;
    int releases_gil, any_layout;
    if (!PyArg_ParseTuple(arguments, "nO!O!O!O!nnnO!OOpp:NativeProgram", &inputs, &PyTuple_Type, &shapes, &PyTuple_Type,
                          &dtypes, &PyTuple_Type, &donors, &PyTuple_Type, &constants, &slots, &arena_slot, &arena, &PyList_Type, &instructions, &finish,
                          &empty, &releases_gil, &any_layout))
        return NULL;
    Program *self = (Program *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->input_count = inputs;
    self->output_count = PyTuple_GET_SIZE(shapes);
    self->constant_count = PyTuple_GET_SIZE(constants);
    self->slot_count = slots;
    self->arena_slot = arena_slot;
    self->arena = (size_t)arena;
    self->releases_gil = releases_gil;
    self->any_layout = any_layout; /* the caller has checked the strides */
    self->output_shapes = Py_NewRef(shapes);
    self->output_dtypes = Py_NewRef(dtypes);
    self->constants = Py_NewRef(constants);
    self->finish = Py_NewRef(finish);
    self->empty = Py_NewRef(empty);
    self->about = Py_NewRef(Py_None);
    if (inputs < 0 || inputs + self->output_count + self->constant_count > arena_slot || arena_slot >= slots)
        PyErr_SetString(PyExc_ValueError, "a program needs a slot for each input, output and constant, and for its arena.");
    else if (read_donors(self, donors) == 0 && read_instructions(self, instructions) == 0)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void program_dealloc(Program *self) {
    for (Py_ssize_t i = 0; i < self->instruction_count; i++) {
        PyMem_Free(self->instructions[i].arguments);
        PyMem_Free(self->instructions[i].product);
        Py_XDECREF(self->instructions[i].host);
        Py_XDECREF(self->instructions[i].code);
    }
    PyMem_Free(self->instructions);
    PyMem_Free(self->donors);
    PyMem_Free(self->takes);
    Py_XDECREF(self->output_shapes);
    Py_XDECREF(self->output_dtypes);
    Py_XDECREF(self->constants);
    Py_XDECREF(self->finish);
    Py_XDECREF(self->empty);
    Py_XDECREF(self->about);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"run", (PyCFunction)program_run, METH_O,
     "run(inputs) -> the results as ndarrays; NotImplemented if an input is not contiguous"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"about", T_OBJECT, offsetof(Program, about), 0, "What the instructions are, in order: handed to profiles."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, program_new},
    {Py_tp_members, members},
    {Py_tp_dealloc, program_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc, "Kernels, BLAS calls and host steps, run in order on planned memory."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.NativeProgram",
    .basicsize = sizeof(Program),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

static PyObject *ndarray_address(PyObject *Py_UNUSED(module), PyObject *array) {
    if (!is_ndarray(array)) {
        PyErr_SetString(PyExc_TypeError, "ndarray_address takes an ndarray.");
        return NULL;
    }
    return PyLong_FromVoidPtr(((NumpyArray *)array)->data);
}

static PyMethodDef functions[] = {
    {"ndarray_address", ndarray_address, METH_O, "The address of an ndarray's elements, as NativeProgram reads it."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_program(PyObject *module) {
    Program_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (Program_Type == NULL || PyModule_AddObjectRef(module, "NativeProgram", (PyObject *)Program_Type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
