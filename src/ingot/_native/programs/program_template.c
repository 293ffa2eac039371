/* ProgramTemplate: a program for some shapes, and the numbers in it that depend on shapes.
 *
 * Instantiating it copies the program and patches in the numbers that size code computes, in a fraction of a microsecond.
 * The Python functions of host steps and checks whose ops depend on shapes are made on first use. */
#include "programs/program.h"

#include "numpy_api.h"

enum { ARENA, RELEASES_GIL, PARTS, GRAIN, OFFSET, PRODUCT, SHAPE, NUMBER, LENGTH, VIEW, PATCH_KINDS };

static const char *const kinds[PATCH_KINDS] = {"arena",   "releases gil", "parts",  "grain",  "offset",
                                               "product", "shape",        "number", "length", "view"};

/* Where the number of a register is patched in: instruction `a` and argument or field `b`, output `a` and axis `b`, entry
 * `a` of the table of numbers, constant `a`, or view `a` and its number `b`. */
typedef struct {
    int kind, a, b, source;
} Patch;

typedef struct {
    PyObject_HEAD
    Program *prototype;
    PyObject *code;       /* SizeCode */
    PyObject *make_about; /* called with the values of the dimensions */
    PyObject *hosts;      /* tuple of (instruction, function from the registers to its host function) */
    Patch *patches;
    Py_ssize_t patch_count, number_count, length_count, argument_count, product_count;
    Py_ssize_t number_slot; /* of the table of numbers */
} Template;

static PyTypeObject *Template_Type;

bool ingot_is_template(PyObject *object) {
    return Py_IS_TYPE(object, Template_Type);
}

Py_ssize_t ingot_template_inputs(PyObject *template) {
    return size_code_inputs(((Template *)template)->code);
}

/* ---- instantiation ---- */

/* One block for everything that the copy owns, with the instructions in it. */
static int copy_instructions(const Template *self, Program *made) {
    const Program *from = self->prototype;
    size_t instructions = (size_t)from->instruction_count * sizeof(Instruction);
    size_t arguments = (size_t)self->argument_count * sizeof(Argument),
           products = (size_t)self->product_count * sizeof(Product);
    size_t own = (size_t)(self->length_count + 1) * sizeof(OwnConstant);
    size_t values = (size_t)size_code_inputs(self->code) * sizeof(Number);
    size_t numbers = (size_t)(self->number_count + 2 * self->length_count) * sizeof(int64_t);
    size_t views = (size_t)from->view_number_count * sizeof(int64_t);
    char *block = PyMem_Malloc(instructions + arguments + products + own + values + numbers + views + 1);
    if (block == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    made->block = block;
    made->instructions = memcpy(block, from->instructions, instructions);
    Argument *argument = (Argument *)(void *)(block += instructions);
    Product *product = (Product *)(void *)(block += arguments);
    made->own = (OwnConstant *)(void *)(block += products);
    made->values = (Number *)(void *)(block += own);
    for (Py_ssize_t i = 0; i < from->instruction_count; i++) {
        Instruction *instruction = &made->instructions[i];
        instruction->arguments = memcpy(argument, instruction->arguments, (size_t)instruction->count * sizeof *argument);
        argument += instruction->count;
        if (instruction->product != NULL)
            instruction->product = memcpy(product++, instruction->product, sizeof *product);
    }
    if (views > 0)
        made->view_numbers = memcpy(block + values + numbers, from->view_numbers, views);
    made->own_count = self->number_slot >= 0;
    if (made->own_count > 0) {
        PyObject *table = PyTuple_GET_ITEM(from->constants, from->constant_count - 1);
        made->own[0] = (OwnConstant){self->number_slot, block + values};
        memcpy(block + values, ndarray_data(table), (size_t)self->number_count * sizeof(int64_t));
    }
    return 0;
}

static int64_t *product_field(Product *product, int field) {
    if (field < 6)
        return &product->m + field;
    field -= 6;
    return field < MAXIMUM_STACK_AXES ? &product->lengths[field] : &product->strides[0][0] + (field - MAXIMUM_STACK_AXES);
}

/* A length as an element of a dtype, cast by NumPy. */
static int write_length(const Template *self, Program *made, int constant, Number value, bool is_float) {
    PyObject *prototype = PyTuple_GET_ITEM(self->prototype->constants, constant);
    PyArray_Descr *dtype = PyArray_DESCR(as_ndarray(prototype));
    OwnConstant *own = &made->own[made->own_count];
    own->slot = made->input_count + made->output_count + constant;
    own->data = (char *)(made->values + size_code_inputs(self->code)) +
                (size_t)(self->number_count + 2 * (made->own_count - (self->number_slot >= 0))) * sizeof(int64_t);
    made->own_count++;
    if (dtype->type_num == NPY_FLOAT && !is_float) { /* via double, which is exact for lengths */
        float single = (float)(double)value.i;
        memcpy(own->data, &single, sizeof single);
        return 0;
    }
    PyObject *source = PyArray_SimpleNew(0, NULL, is_float ? NPY_DOUBLE : NPY_INT64);
    if (source == NULL)
        return -1;
    memcpy(ndarray_data(source), &value, sizeof value);
    Py_INCREF(dtype);
    PyObject *cast = PyArray_CastToType(as_ndarray(source), dtype, 0);
    Py_DECREF(source);
    if (cast == NULL)
        return -1;
    memcpy(own->data, ndarray_data(cast), (size_t)PyArray_ITEMSIZE(as_ndarray(cast)));
    Py_DECREF(cast);
    return 0;
}

/* The shapes of the outputs, which are mutable until they are published. */
static PyObject *copy_shapes(PyObject *shapes) {
    PyObject *made = PyTuple_New(PyTuple_GET_SIZE(shapes));
    for (Py_ssize_t i = 0; made != NULL && i < PyTuple_GET_SIZE(shapes); i++) {
        PyObject *shape = PyTuple_GET_ITEM(shapes, i), *copy = PyTuple_New(PyTuple_GET_SIZE(shape));
        if (copy == NULL) {
            Py_CLEAR(made);
            break;
        }
        for (Py_ssize_t axis = 0; axis < PyTuple_GET_SIZE(shape); axis++)
            PyTuple_SET_ITEM(copy, axis, Py_NewRef(PyTuple_GET_ITEM(shape, axis)));
        PyTuple_SET_ITEM(made, i, copy);
    }
    return made;
}

static int write_length_of_axis(PyObject *shape, int axis, int64_t value) {
    PyObject *number = PyLong_FromLongLong(value);
    if (number == NULL)
        return -1;
    PyObject *before = PyTuple_GET_ITEM(shape, axis);
    PyTuple_SET_ITEM(shape, axis, number);
    Py_DECREF(before);
    return 0;
}

static int apply(const Template *self, Program *made, const Patch *patch, const Number *registers, bool is_float) {
    Number value = registers[patch->source];
    Instruction *instruction = &made->instructions[patch->a]; /* of those kinds that are about one */
    switch (patch->kind) {
    case ARENA:
        made->arena = (size_t)value.i;
        break;
    case RELEASES_GIL:
        made->releases_gil = value.i != 0;
        break;
    case PARTS:
        instruction->parts = value.i;
        break;
    case GRAIN:
        instruction->grain = value.i < 1 ? 1 : value.i;
        break;
    case OFFSET:
        instruction->arguments[patch->b].offset = (Py_ssize_t)value.i;
        break;
    case PRODUCT:
        *product_field(instruction->product, patch->b) = value.i;
        break;
    case SHAPE:
        return write_length_of_axis(PyTuple_GET_ITEM(made->output_shapes, patch->a), patch->b, value.i);
    case NUMBER:
        (&made->values[size_code_inputs(self->code)])[patch->a].i = value.i;
        break;
    case VIEW:
        made->view_numbers[made->views[patch->a].first + patch->b] = value.i;
        break;
    default: /* LENGTH */
        return write_length(self, made, patch->a, value, is_float);
    }
    return 0;
}

/* The instruction of a host function that depends on shapes. */
static Py_ssize_t host_position(const Template *self, Py_ssize_t i) {
    return PyLong_AsSsize_t(PyTuple_GET_ITEM(PyTuple_GET_ITEM(self->hosts, i), 0));
}

static Program *make_program(const Template *self, const Number *registers) {
    const Program *from = self->prototype;
    Program *made = ingot_program_new();
    if (made == NULL)
        return NULL;
    PyObject head = made->ob_base;
    *made = *from; /* everything is the prototype's until it is replaced */
    made->ob_base = head;
    made->about = NULL;
    made->block = NULL;
    made->result_shapes = NULL;
    made->template = Py_NewRef((PyObject *)self);
    made->output_shapes = copy_shapes(from->output_shapes);
    int status = made->output_shapes == NULL ? -1 : copy_instructions(self, made);
    if (status == 0)
        memcpy(made->values, registers, (size_t)size_code_inputs(self->code) * sizeof *registers);
    for (Py_ssize_t i = 0; status == 0 && i < self->patch_count; i++) {
        const Patch *patch = &self->patches[i];
        status = apply(self, made, patch, registers, size_code_is_float(self->code, patch->source));
    }
    for (Py_ssize_t i = 0; status == 0 && i < PyTuple_GET_SIZE(self->hosts); i++)
        made->instructions[host_position(self, i)].host = NULL; /* made on first use */
    if (status == 0 && (made->result_shapes = ingot_result_shapes(made)) == NULL)
        status = -1;
    if (status < 0)
        Py_CLEAR(made);
    return made;
}

Program *ingot_template_make(PyObject *template, const Number *values, SizeOutcome *outcome) {
    const Template *self = (Template *)template;
    Number fast[FAST_REGISTERS], *registers = fast;
    size_t count = (size_t)size_code_registers(self->code);
    *outcome = SIZES_FIT;
    if (count > FAST_REGISTERS && (registers = PyMem_Malloc(count * sizeof *registers)) == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    memcpy(registers, values, (size_t)size_code_inputs(self->code) * sizeof *registers);
    *outcome = size_code_run(self->code, registers);
    Program *made = *outcome == SIZES_FIT ? make_program(self, registers) : NULL;
    if (registers != fast)
        PyMem_Free(registers);
    return made;
}

/* All registers of the size code as Python's numbers: a new list. */
static PyObject *all_numbers(const Template *self, const Number *values) {
    size_t count = (size_t)size_code_registers(self->code);
    Number *registers = PyMem_Malloc((count + 1) * sizeof *registers);
    if (registers == NULL)
        return PyErr_NoMemory();
    memcpy(registers, values, (size_t)size_code_inputs(self->code) * sizeof *registers);
    size_code_run(self->code, registers); /* succeeds, as it did when the program was made */
    PyObject *numbers = size_code_numbers(self->code, registers, (Py_ssize_t)count);
    PyMem_Free(registers);
    return numbers;
}

int ingot_template_host(Program *program, Instruction *instruction) {
    const Template *self = (Template *)program->template;
    PyObject *function = NULL;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->hosts); i++) {
        if (&program->instructions[host_position(self, i)] == instruction)
            function = PyTuple_GET_ITEM(PyTuple_GET_ITEM(self->hosts, i), 1);
    }
    if (program->own_hosts == NULL && (program->own_hosts = PyList_New(0)) == NULL)
        return -1;
    PyObject *numbers = all_numbers(self, program->values);
    PyObject *host = numbers == NULL ? NULL : PyObject_CallOneArg(function, numbers);
    Py_XDECREF(numbers);
    int status = host == NULL ? -1 : PyList_Append(program->own_hosts, host);
    if (status == 0 && instruction->host == NULL) /* else another thread was faster */
        instruction->host = host;
    Py_XDECREF(host);
    return status;
}

PyObject *ingot_template_values(Program *program) {
    PyObject *code = ((Template *)program->template)->code;
    return size_code_numbers(code, program->values, size_code_inputs(code));
}

PyObject *ingot_template_about(Program *program) {
    PyObject *values = ingot_template_values(program);
    PyObject *about = values == NULL ? NULL : PyObject_CallOneArg(((Template *)program->template)->make_about, values);
    Py_XDECREF(values);
    if (about != NULL)
        Py_XSETREF(program->about, Py_NewRef(about));
    return about;
}

/* make(values) -> NativeProgram, or None if the values violate the conditions */
static PyObject *template_make(Template *self, PyObject *values) {
    Number *inputs = PyMem_Malloc(((size_t)size_code_inputs(self->code) + 1) * sizeof *inputs);
    if (inputs == NULL)
        return PyErr_NoMemory();
    SizeOutcome outcome = size_code_read(self->code, values, inputs);
    PyObject *made = NULL;
    if (outcome == SIZES_FIT)
        made = (PyObject *)ingot_template_make((PyObject *)self, inputs, &outcome);
    PyMem_Free(inputs);
    return outcome == SIZES_FIT ? made : size_code_refusal(outcome);
}

/* ---- construction ---- */

static bool is_inside(const Template *self, const Patch *patch) {
    const Program *program = self->prototype;
    if (patch->a < 0 || patch->b < 0 || patch->source < 0 || patch->source >= size_code_registers(self->code))
        return false;
    switch (patch->kind) {
    case ARENA:
    case RELEASES_GIL:
        return true;
    case SHAPE:
        return patch->a < program->output_count &&
               patch->b < PyTuple_GET_SIZE(PyTuple_GET_ITEM(program->output_shapes, patch->a));
    case NUMBER:
        return self->number_slot >= 0 && patch->a < self->number_count;
    case VIEW:
        return patch->a < program->view_count && patch->b <= 2 * program->views[patch->a].axes;
    case LENGTH:
        return patch->a < program->constant_count &&
               PyArray_ITEMSIZE(as_ndarray(PyTuple_GET_ITEM(program->constants, patch->a))) <= 2 * (int)sizeof(int64_t);
    default:
        break;
    }
    if (patch->a >= program->instruction_count)
        return false;
    const Instruction *instruction = &program->instructions[patch->a];
    if (patch->kind == PRODUCT)
        return instruction->product != NULL && patch->b < 6 + 4 * MAXIMUM_STACK_AXES;
    return patch->kind == OFFSET ? patch->b < instruction->count : instruction->kind == KERNEL;
}

static int read_patch(Template *self, PyObject *tuple, Patch *patch) {
    const char *name;
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "siii", &name, &patch->a, &patch->b, &patch->source))
        return -1;
    for (patch->kind = 0; patch->kind < PATCH_KINDS; patch->kind++) {
        if (strcmp(kinds[patch->kind], name) == 0)
            break;
    }
    if (patch->kind == PATCH_KINDS || !is_inside(self, patch)) {
        PyErr_Format(PyExc_ValueError, "a program has nothing to patch for %R.", tuple);
        return -1;
    }
    self->length_count += patch->kind == LENGTH;
    return 0;
}

static int read_template(Template *self, PyObject *patches) {
    const Program *program = self->prototype;
    if (program->template != NULL) {
        PyErr_SetString(PyExc_ValueError, "a program that a template made cannot be a template.");
        return -1;
    }
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(self->hosts); i++) {
        Py_ssize_t position;
        PyObject *function, *pair = PyTuple_GET_ITEM(self->hosts, i);
        if (!PyTuple_Check(pair) || !PyArg_ParseTuple(pair, "nO", &position, &function))
            return -1;
        if (position < 0 || position >= program->instruction_count || program->instructions[position].host == NULL) {
            PyErr_Format(PyExc_ValueError, "instruction %zd of the program calls no Python function.", position);
            return -1;
        }
    }
    for (Py_ssize_t i = 0; i < program->instruction_count; i++) {
        self->argument_count += program->instructions[i].count;
        self->product_count += program->instructions[i].product != NULL;
    }
    self->patch_count = PyList_GET_SIZE(patches);
    self->patches = PyMem_Calloc((size_t)self->patch_count + 1, sizeof *self->patches);
    if (self->patches == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < self->patch_count; i++) {
        if (read_patch(self, PyList_GET_ITEM(patches, i), &self->patches[i]) < 0)
            return -1;
    }
    return 0;
}

/* ProgramTemplate(program, code, patches, numbers, make_about, hosts) */
static PyObject *template_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    PyObject *program, *code, *patches, *make_about, *hosts;
    Py_ssize_t numbers;
    if (!PyArg_ParseTuple(arguments, "O!O!O!nOO!:ProgramTemplate", Program_Type, &program, SizeCode_Type, &code, &PyList_Type,
                          &patches, &numbers, &make_about, &PyTuple_Type, &hosts))
        return NULL;
    Template *self = (Template *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->prototype = (Program *)Py_NewRef(program);
    self->code = Py_NewRef(code);
    self->make_about = Py_NewRef(make_about);
    self->hosts = Py_NewRef(hosts);
    self->number_count = numbers < 0 ? 0 : numbers;
    /* the table is the last constant */
    self->number_slot = numbers < 0 ? -1 : self->prototype->arena_slot - 1;
    if (read_template(self, patches) == 0)
        return (PyObject *)self;
    Py_DECREF(self);
    return NULL;
}

static void template_dealloc(Template *self) {
    PyMem_Free(self->patches);
    Py_XDECREF(self->prototype);
    Py_XDECREF(self->code);
    Py_XDECREF(self->make_about);
    Py_XDECREF(self->hosts);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

LOCKS_METHOD(template_make)

static PyMethodDef methods[] = {
    {"make", (PyCFunction)LOCKED(template_make), METH_O,
     "make(values) -> the program for values of the dimensions; None if they violate the conditions, OverflowError if 64 bits "
     "do not suffice"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, template_new},
    {Py_tp_dealloc, template_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_doc, "ProgramTemplate(program, code, patches, numbers, make_about, hosts): programs for other shapes than the "
                "program's. Patches are (kind, a, b, register); `numbers` is the length of the table of numbers, or -1; hosts "
                "are (instruction, function), which makes the instruction's Python function from the list of all registers."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.ProgramTemplate",
    .basicsize = sizeof(Template),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

int ingot_add_program_template(PyObject *module) {
    Template_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    return Template_Type == NULL ? -1 : PyModule_AddObjectRef(module, "ProgramTemplate", (PyObject *)Template_Type);
}
