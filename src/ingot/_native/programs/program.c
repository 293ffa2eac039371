/* NativeProgram: kernels, BLAS calls and host steps with the memory they work on, built from what generate.py passes. */
#include "programs/program.h"

#include "numpy_api.h"
#include "routines/routine.h"
#include <structmember.h>

PyTypeObject *Program_Type;

Program *ingot_program_new(void) {
    return (Program *)Program_Type->tp_alloc(Program_Type, 0);
}

bool ingot_is_program(PyObject *object) {
    return Py_IS_TYPE(object, Program_Type);
}

bool ingot_program_may_reuse(PyObject *program, Py_ssize_t input) {
    return input < ((Program *)program)->input_count && ((Program *)program)->reusable[input];
}

/* run(inputs) -> tuple of ndarrays; NotImplemented if an input is not contiguous */
static PyObject *program_run(PyObject *self, PyObject *inputs) {
    if (!PyTuple_Check(inputs)) {
        PyErr_SetString(PyExc_TypeError, "run takes a tuple of ndarrays.");
        return NULL;
    }
    return ingot_program_run(self, ((PyTupleObject *)inputs)->ob_item, PyTuple_GET_SIZE(inputs), NULL, NULL);
}

static int read_donors(Program *self, PyObject *donors) {
    self->donors = PyMem_Calloc((size_t)self->output_count + 1, sizeof *self->donors);
    self->reusable = PyMem_Calloc((size_t)self->input_count + 1, sizeof *self->reusable);
    self->first_use = PyMem_Malloc(((size_t)self->output_count + 1) * sizeof *self->first_use);
    if (self->donors == NULL || self->reusable == NULL || self->first_use == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    bool fits = PyTuple_GET_SIZE(donors) == self->output_count;
    for (Py_ssize_t i = 0; fits && i < self->output_count; i++) {
        long donor = PyLong_AsLong(PyTuple_GET_ITEM(donors, i));
        fits = donor >= -1 && donor < self->input_count && !PyErr_Occurred();
        self->donors[i] = (int)donor;
        self->first_use[i] = PY_SSIZE_T_MAX;
        if (fits && donor >= 0)
            self->reusable[donor] = true;
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
            PyErr_Format(PyExc_ValueError, "an argument refers to slot %d, which the program does not have.", argument->slot);
            status = -1;
        }
    }
    Py_DECREF(fast);
    return status;
}

static int read_instruction(PyObject *tuple, Instruction *instruction, Py_ssize_t slot_count) {
    const char *kind =
        PyTuple_Check(tuple) && PyTuple_GET_SIZE(tuple) > 0 ? PyUnicode_AsUTF8(PyTuple_GET_ITEM(tuple, 0)) : NULL;
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
    } else if (strcmp(kind, "nested") == 0 || strcmp(kind, "routine") == 0) {
        instruction->kind = kind[0] == 'n' ? NESTED : ROUTINE;
        PyObject *nested, *host;
        if (!PyArg_ParseTuple(tuple, "sO!OnO", &name, kind[0] == 'n' ? Nested_Type : Routine_Type, &nested, &host,
                              &instruction->view_count, &arguments))
            return -1;
        instruction->nested = Py_NewRef(nested);
        instruction->host = host == Py_None ? NULL : Py_NewRef(host);
    } else if (strcmp(kind, "host") == 0 || strcmp(kind, "check") == 0) {
        instruction->kind = kind[0] == 'h' ? HOST : CHECK;
        PyObject *host;
        if (!PyArg_ParseTuple(tuple, "sOnO", &name, &host, &instruction->view_count, &arguments))
            return -1;
        instruction->host = Py_NewRef(host);
    } else {
        PyErr_Format(PyExc_ValueError, "there is no kind of instruction called %s.", kind);
        return -1;
    }
    return read_arguments(arguments, instruction, slot_count);
}

static int read_instructions(Program *self, PyObject *list) {
    Py_ssize_t count = PyList_GET_SIZE(list), views = self->view_count - (self->result_count < 0 ? 0 : self->result_count);
    Py_ssize_t next_view = 0;
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
        instruction->first_view = next_view;
        if (instruction->view_count < 0 || instruction->view_count > views - next_view) {
            PyErr_SetString(PyExc_ValueError, "a program needs a view for each operand of its host steps.");
            return -1;
        }
        next_view += instruction->view_count;
        if (instruction->kind == HOST)
            self->host_count = i + 1;
        if (instruction->kind == NESTED && instruction->count != ingot_nested_arguments(instruction->nested)) {
            PyErr_SetString(PyExc_ValueError, "a loop or branch needs its operands, its results and scratch memory.");
            return -1;
        }
        if (instruction->kind == ROUTINE && instruction->count != ingot_routine_arguments(instruction->nested)) {
            PyErr_SetString(PyExc_ValueError, "a routine needs its operands and its results.");
            return -1;
        }
        bool takes_all = instruction->kind == KERNEL || instruction->kind == NESTED || instruction->kind == ROUTINE;
        if (takes_all && instruction->count > self->argument_count)
            self->argument_count = instruction->count;
        for (int k = 0; k < instruction->count; k++) {
            Py_ssize_t output = instruction->arguments[k].slot - self->input_count;
            if (output >= 0 && output < self->output_count && i < self->first_use[output])
                self->first_use[output] = i;
        }
    }
    return 0;
}

/* Blocks that are kept from run to run: tuples (slot, slot of the source, nbytes, numbers of the kernels that compute it). */
static int read_kept(Program *self, PyObject *tuple) {
    Py_ssize_t count = PyTuple_GET_SIZE(tuple);
    if (count == 0)
        return 0;
    if ((self->kept = PyMem_Calloc((size_t)count, sizeof *self->kept)) == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        KeptPanels *kept = &self->kept[i];
        Py_ssize_t nbytes;
        PyObject *writers;
        if (!PyArg_ParseTuple(PyTuple_GET_ITEM(tuple, i), "iinO!", &kept->slot, &kept->source, &nbytes, &PyTuple_Type,
                              &writers))
            return -1;
        Py_ssize_t constant = kept->source - self->input_count - self->output_count;
        bool is_given = kept->source < self->input_count || (constant >= 0 && constant < self->constant_count);
        bool fits =
            kept->slot > self->arena_slot && kept->slot < self->slot_count && kept->source >= 0 && is_given && nbytes > 0;
        for (Py_ssize_t k = 0; fits && k < PyTuple_GET_SIZE(writers); k++) {
            Py_ssize_t number = PyLong_AsSsize_t(PyTuple_GET_ITEM(writers, k));
            fits = number >= 0 && number < self->instruction_count && self->instructions[number].kind == KERNEL;
            if (fits)
                self->instructions[number].kept = (int)i + 1;
        }
        if (!fits) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError,
                                "kept panels need a slot, an input or constant, a size, and the kernels that compute them.");
            return -1;
        }
        kept->nbytes = (size_t)nbytes;
        self->kept_count = i + 1;
    }
    return 0;
}

/* Whether shapes are tuples, and there is one of NumPy's dtypes for each. */
static int check_outputs(PyObject *shapes, PyObject *dtypes) {
    bool is_right = PyTuple_GET_SIZE(shapes) == PyTuple_GET_SIZE(dtypes);
    for (Py_ssize_t i = 0; is_right && i < PyTuple_GET_SIZE(shapes); i++)
        is_right = PyTuple_Check(PyTuple_GET_ITEM(shapes, i)) && PyArray_DescrCheck(PyTuple_GET_ITEM(dtypes, i));
    if (!is_right)
        PyErr_SetString(PyExc_TypeError, "a program needs a tuple of lengths and a dtype of NumPy's for each output.");
    return is_right ? 0 : -1;
}

/* NativeProgram(inputs, shapes, dtypes, donors, constants, slots, arena_slot, arena, instructions, views, results,
 * releases_gil, any_layout, kept) */
static PyObject *program_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    Py_ssize_t inputs, slots, arena_slot, arena, results;
    PyObject *shapes, *dtypes, *donors, *constants, *instructions, *views, *kept;
    int releases_gil, any_layout;
    if (!PyArg_ParseTuple(arguments, "nO!O!O!O!nnnO!O!nppO!:NativeProgram", &inputs, &PyTuple_Type, &shapes, &PyTuple_Type,
                          &dtypes, &PyTuple_Type, &donors, &PyTuple_Type, &constants, &slots, &arena_slot, &arena, &PyList_Type,
                          &instructions, &PyList_Type, &views, &results, &releases_gil, &any_layout, &PyTuple_Type, &kept))
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
    self->any_layout = any_layout; /* then the caller checks the strides */
    self->output_shapes = Py_NewRef(shapes);
    self->output_dtypes = Py_NewRef(dtypes);
    self->constants = Py_NewRef(constants);
    self->result_count = results < 0 ? -1 : results;
    self->about = Py_NewRef(Py_None);
    if (inputs < 0 || inputs + self->output_count + self->constant_count > arena_slot || arena_slot >= slots)
        PyErr_SetString(PyExc_ValueError, "a program needs a slot for each input, output and constant, and for its arena.");
    else if (results > PyList_GET_SIZE(views))
        PyErr_SetString(PyExc_ValueError, "a program needs a view for each result.");
    else if (check_outputs(shapes, dtypes) == 0 && read_donors(self, donors) == 0 && ingot_read_views(self, views) == 0 &&
             read_instructions(self, instructions) == 0 && read_kept(self, kept) == 0 &&
             (self->result_shapes = ingot_result_shapes(self)) != NULL)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void free_own_parts(Program *self) {
    for (Py_ssize_t i = 0; i < self->instruction_count; i++) {
        PyMem_Free(self->instructions[i].arguments);
        PyMem_Free(self->instructions[i].product);
        Py_XDECREF(self->instructions[i].host);
        Py_XDECREF(self->instructions[i].code);
        Py_XDECREF(self->instructions[i].nested);
    }
    for (Py_ssize_t i = 0; i < self->kept_count; i++)
        ingot_drop_panels(&self->kept[i]);
    PyMem_Free(self->kept);
    Py_XDECREF(self->repeat_code);
    PyMem_Free(self->carry_bytes);
    PyMem_Free(self->constant_addresses);
    PyMem_Free(self->instructions);
    PyMem_Free(self->donors);
    PyMem_Free(self->reusable);
    PyMem_Free(self->first_use);
    Py_XDECREF(self->output_dtypes);
    Py_XDECREF(self->constants);
    ingot_release_views(self);
}

static void program_dealloc(Program *self) {
    if (self->template == NULL)
        free_own_parts(self);
    PyMem_Free(self->block);
    Py_XDECREF(self->output_shapes);
    Py_XDECREF(self->result_shapes);
    Py_XDECREF(self->own_hosts);
    Py_XDECREF(self->about);
    Py_XDECREF(self->template);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyObject *program_may_reuse(Program *self, PyObject *arguments) {
    Py_ssize_t output, input;
    if (!PyArg_ParseTuple(arguments, "nn:may_reuse", &output, &input))
        return NULL;
    return PyBool_FromLong(output >= 0 && output < self->output_count && self->donors[output] == input);
}

static PyObject *program_can_loop(Program *self, void *Py_UNUSED(closure)) {
    return PyBool_FromLong(ingot_program_can_loop(self));
}

static PyObject *program_repeat_by(Program *self, PyObject *arguments) {
    PyObject *code, *sizes;
    if (!PyArg_ParseTuple(arguments, "O!O!:repeat_by", MachineCode_Type, &code, &PyTuple_Type, &sizes))
        return NULL;
    Py_ssize_t carries = PyTuple_GET_SIZE(sizes);
    if (self->repeat != NULL || self->template != NULL || !ingot_program_can_loop(self) || carries > self->input_count ||
        carries > self->output_count) {
        PyErr_SetString(PyExc_ValueError, "this program is not the body of such a loop.");
        return NULL;
    }
    self->carry_bytes = PyMem_Malloc(((size_t)carries + 1) * sizeof *self->carry_bytes);
    self->constant_addresses = PyMem_Malloc(((size_t)self->constant_count + 1) * sizeof *self->constant_addresses);
    if (self->carry_bytes == NULL || self->constant_addresses == NULL)
        return PyErr_NoMemory();
    for (Py_ssize_t i = 0; i < carries; i++) {
        self->carry_bytes[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(sizes, i));
        if (self->carry_bytes[i] == -1 && PyErr_Occurred())
            return NULL;
    }
    for (Py_ssize_t i = 0; i < self->constant_count; i++)
        self->constant_addresses[i] = ndarray_data(PyTuple_GET_ITEM(self->constants, i));
    self->repeat_code = Py_NewRef(code);
    self->repeat = (RepeatFunction)ingot_code_address(code);
    Py_RETURN_NONE;
}

LOCKS_METHOD(program_repeat_by)
LOCKS_METHOD(program_run)
LOCKS_METHOD(ingot_program_loop)
LOCKS_METHOD(program_may_reuse)

static PyMethodDef methods[] = {
    {"repeat_by", (PyCFunction)LOCKED(program_repeat_by), METH_VARARGS,
     "repeat_by(code, carry_bytes): lets loops around the program call `code`, a RepeatFunction"},
    {"run", (PyCFunction)LOCKED(program_run), METH_O,
     "run(inputs) -> the results as ndarrays; NotImplemented if an input is not contiguous"},
    {"loop", (PyCFunction)LOCKED(ingot_program_loop), METH_VARARGS,
     "loop(inputs, first, second, carries, slices, length, reverse, has_flag, invariant) -> the number of steps.\n"
     "Runs the program repeatedly; carried values alternate between `first` and `second`."},
    {"may_reuse", (PyCFunction)LOCKED(program_may_reuse), METH_VARARGS,
     "may_reuse(output, input) -> whether an output may reuse the memory of an input"},
    {NULL, NULL, 0, NULL},
};

PyObject *ingot_program_about(Program *self) {
    return self->about == NULL ? ingot_template_about(self) : Py_NewRef(self->about);
}

static PyObject *get_about(PyObject *self, void *Py_UNUSED(closure)) {
    return ingot_program_about((Program *)self);
}

static int set_about(PyObject *self, PyObject *about, void *Py_UNUSED(closure)) {
    Py_XSETREF(((Program *)self)->about, Py_XNewRef(about));
    return 0;
}

/* The values of the dimensions that a template instantiated the program for, or None. */
static PyObject *get_values(PyObject *self, void *Py_UNUSED(closure)) {
    Program *program = (Program *)self;
    if (program->template == NULL)
        Py_RETURN_NONE;
    return ingot_template_values(program);
}

LOCKS_GETTER(program_can_loop)
LOCKS_GETTER(get_about)
LOCKS_SETTER(set_about)
LOCKS_GETTER(get_values)

static PyGetSetDef properties[] = {
    {"can_loop", (getter)LOCKED(program_can_loop), NULL, "Whether `loop` and a NestedProgram may run it.", NULL},
    {"about", LOCKED(get_about), LOCKED(set_about), "A description of the instructions, for profiles and errors.", NULL},
    {"values", LOCKED(get_values), NULL, "The values of the dimensions that a ProgramTemplate instantiated it for, or None.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyMemberDef members[] = {
    {"shapes", T_OBJECT, offsetof(Program, result_shapes), READONLY, "The shapes of its results."},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, program_new},
    {Py_tp_members, members},
    {Py_tp_getset, properties},
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

int ingot_add_program(PyObject *module) {
    Program_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    return Program_Type == NULL ? -1 : PyModule_AddObjectRef(module, "NativeProgram", (PyObject *)Program_Type);
}
