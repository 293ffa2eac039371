/* ShapeTable: the instances of one trace by the shapes of its inputs.
 *
 * For new shapes the table creates an instance by itself if nothing has to be compiled: size code computes the trace's
 * dimensions and checks its guards, and a ProgramTemplate creates the program, without Python. */
#include "calls/shape_table.h"
#include "calls/instance.h"
#include "calls/lengths.h"
#include "objects/two_way_cache.h"

/* ---- the table ---- */

typedef struct {
    PyObject_HEAD
    PyObject *variant, *trace;
    /* What native code needs to create instances; NULL if it may not: */
    PyObject *guards;                   /* of attributes and variables, or None */
    PyObject *code;                     /* computes dimensions from the lengths of axes; None if that needs more than 64 bits */
    PyObject *programs;                 /* list of symbolic programs, whose attribute `template` is one, or None */
    PyObject *answer;                   /* (result, dtypes, output ops, builder, states), shared by all instances */
    PyObject *made, *evicted, *records; /* UseCounters, and a deque of (number, shapes) */
    Py_ssize_t *registers;              /* of the dimensions, in the code */
    Py_ssize_t dimension_count;
    /* Rows of lengths, and the instances for them; `index` is a hash table of row numbers, -1 where it is empty. */
    Py_ssize_t length_count, count, capacity, limit;
    int64_t *rows;
    Instance **instances;
    int32_t *index;
} ShapeTable;

static PyTypeObject *ShapeTable_Type;

static uint64_t hash_of(const int64_t *lengths, Py_ssize_t count) {
    return hash_words((const uint64_t *)lengths, (size_t)count);
}

static uint64_t index_mask(const ShapeTable *self) {
    return 4 * (uint64_t)self->capacity - 1;
}

/* Borrowed. */
static Instance *find(const ShapeTable *self, const int64_t *lengths, Py_ssize_t count) {
    if (self->count == 0 || count != self->length_count)
        return NULL;
    uint64_t mask = index_mask(self);
    for (uint64_t at = hash_of(lengths, count) & mask; self->index[at] >= 0; at = (at + 1) & mask) {
        Py_ssize_t row = self->index[at];
        if (memcmp(self->rows + row * count, lengths, (size_t)count * sizeof *lengths) == 0)
            return self->instances[row];
    }
    return NULL;
}

static void enter_row(ShapeTable *self, Py_ssize_t row) {
    uint64_t mask = index_mask(self), at = hash_of(self->rows + row * self->length_count, self->length_count) & mask;
    while (self->index[at] >= 0)
        at = (at + 1) & mask;
    self->index[at] = (int32_t)row;
}

static void rebuild_index(ShapeTable *self) {
    memset(self->index, 0xFF, 4 * (size_t)self->capacity * sizeof *self->index);
    for (Py_ssize_t row = 0; row < self->count; row++)
        enter_row(self, row);
}

static int grow(ShapeTable *self) {
    size_t capacity = self->capacity ? 2 * (size_t)self->capacity : 4;
    int64_t *rows = PyMem_Realloc(self->rows, (capacity * (size_t)self->length_count + 1) * sizeof *rows);
    if (rows != NULL)
        self->rows = rows;
    Instance **instances = PyMem_Realloc(self->instances, capacity * sizeof(Instance *));
    if (instances != NULL)
        self->instances = instances;
    int32_t *index = PyMem_Realloc(self->index, 4 * capacity * sizeof *index);
    if (index != NULL)
        self->index = index;
    if (rows == NULL || instances == NULL || index == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->capacity = (Py_ssize_t)capacity;
    rebuild_index(self);
    return 0;
}

static int compare_uses(const void *a, const void *b) {
    long long left = *(const long long *)a, right = *(const long long *)b;
    return (left > right) - (left < right);
}

/* Evicts least recently used instances, several at once, so that a stream of new shapes does not pay for it at each call.
 * A new list of them; NULL with an error. */
static PyObject *evict(ShapeTable *self) {
    Py_ssize_t kept = self->limit - self->limit / 4, dropped = self->count - kept;
    PyObject *gone = PyList_New(dropped); /* may run arbitrary code through garbage collection */
    long long *uses = PyMem_Malloc((size_t)self->count * sizeof *uses);
    if (gone == NULL || uses == NULL || self->count - kept != dropped) {
        if (uses == NULL)
            PyErr_NoMemory();
        PyMem_Free(uses);
        Py_CLEAR(gone);
        return PyErr_Occurred() ? NULL : PyList_New(0);
    }
    for (Py_ssize_t row = 0; row < self->count; row++)
        uses[row] = ingot_last_use(self->instances[row]->uses);
    qsort(uses, (size_t)self->count, sizeof *uses, compare_uses);
    long long oldest = uses[dropped]; /* of those that are kept: times of use are unique */
    PyMem_Free(uses);
    Py_ssize_t to = 0, out = 0;
    size_t row_bytes = (size_t)self->length_count * sizeof *self->rows;
    for (Py_ssize_t row = 0; row < self->count; row++) {
        if (ingot_last_use(self->instances[row]->uses) < oldest) {
            PyList_SET_ITEM(gone, out++, (PyObject *)self->instances[row]);
            continue;
        }
        self->instances[to] = self->instances[row];
        memmove(self->rows + to++ * self->length_count, self->rows + row * self->length_count, row_bytes);
    }
    self->count = to;
    rebuild_index(self);
    return gone;
}

/* Adds an instance for lengths; returns those evicted, a new list, or NULL with an error. */
static PyObject *add(ShapeTable *self, const int64_t *lengths, Py_ssize_t count, Instance *instance) {
    if (self->count == 0)
        self->length_count = count;
    if (count != self->length_count) {
        PyErr_SetString(PyExc_ValueError, "all calls of one trace have inputs of the same ranks.");
        return NULL;
    }
    Instance *there = find(self, lengths, count);
    if (there != NULL) { /* another thread has added one meanwhile: the later one wins, as in a dict */
        for (Py_ssize_t row = 0; row < self->count; row++) {
            if (self->instances[row] == there)
                self->instances[row] = (Instance *)Py_NewRef((PyObject *)instance);
        }
        PyObject *gone = PyList_New(0);
        Py_DECREF(there);
        return gone;
    }
    if (self->count == self->capacity && grow(self) < 0)
        return NULL;
    if (count > 0)
        memcpy(self->rows + self->count * count, lengths, (size_t)count * sizeof *lengths);
    self->instances[self->count] = (Instance *)Py_NewRef((PyObject *)instance);
    enter_row(self, self->count++);
    return self->count > self->limit ? evict(self) : PyList_New(0);
}

/* ---- instances created by native code ---- */

/* The entry of the fast path for an op: a new reference. */
static PyObject *make_entry(const ShapeTable *self, PyObject *op, PyObject *shapes, PyObject *uses) {
    PyObject *entry = PyTuple_New(ENTRY_SIZE);
    if (entry == NULL)
        return NULL;
    PyTuple_SET_ITEM(entry, OP, Py_NewRef(op));
    PyTuple_SET_ITEM(entry, SHAPES, Py_NewRef(shapes));
    for (int i = DTYPES; i <= STATES; i++)
        PyTuple_SET_ITEM(entry, i, Py_NewRef(PyTuple_GET_ITEM(self->answer, i - DTYPES + 1)));
    PyTuple_SET_ITEM(entry, COUNTER, Py_NewRef(uses));
    PyTuple_SET_ITEM(entry, GUARDS, Py_NewRef(self->guards));
    PyTuple_SET_ITEM(entry, NEXT, Py_NewRef(Py_None));
    return entry;
}

static Instance *instance_of(const ShapeTable *self, PyObject *source, Program *program) {
    PyObject *op = instance_op(source, program, PyTuple_GET_ITEM(self->answer, 1));
    if (op == NULL)
        return NULL;
    Instance *made = instance_create(self->variant, self->trace, op, PyTuple_GET_ITEM(self->answer, 0), Py_None);
    PyObject *entry = made == NULL ? NULL : make_entry(self, op, program->result_shapes, made->uses);
    Py_DECREF(op);
    if (entry == NULL)
        Py_CLEAR(made);
    else
        Py_SETREF(made->entry, entry);
    return made;
}

/* The instance of the first symbolic program whose conditions the dimensions satisfy; NULL if there is none, or with an
 * error. */
static Instance *make_of_programs(const ShapeTable *self, const Number *values) {
    Instance *made = NULL;
    for (Py_ssize_t i = 0; made == NULL && i < PyList_GET_SIZE(self->programs); i++) {
        PyObject *source = Py_NewRef(PyList_GET_ITEM(self->programs, i));
        PyObject *template = PyObject_GetAttr(source, attribute_names.template);
        SizeOutcome outcome;
        Program *program = NULL;
        if (template != NULL && ingot_is_template(template) && ingot_template_inputs(template) <= self->dimension_count)
            program = ingot_template_make(template, values, &outcome);
        if (program != NULL)
            made = instance_of(self, source, program);
        Py_XDECREF((PyObject *)program);
        Py_XDECREF(template);
        Py_DECREF(source);
        if (PyErr_Occurred())
            break;
    }
    return made;
}

static Instance *make_instance(const ShapeTable *self, const Lengths *lengths) {
    if (self->code == NULL || self->code == Py_None || size_code_inputs(self->code) != lengths->count)
        return NULL;
    Number fast[2 * FAST_REGISTERS], *registers = fast;
    size_t count = (size_t)(size_code_registers(self->code) + self->dimension_count);
    if (count > 2 * FAST_REGISTERS && (registers = PyMem_Malloc(count * sizeof *registers)) == NULL) {
        PyErr_NoMemory();
        return NULL;
    }
    for (Py_ssize_t i = 0; i < lengths->count; i++)
        registers[i].i = lengths->items[i];
    Instance *made = NULL;
    if (size_code_run(self->code, registers) == SIZES_FIT) {
        Number *values = registers + size_code_registers(self->code);
        for (Py_ssize_t i = 0; i < self->dimension_count; i++)
            values[i] = registers[self->registers[i]];
        made = make_of_programs(self, values);
    }
    if (registers != fast)
        PyMem_Free(registers);
    return made;
}

PyObject *shape_table_guards(PyObject *table) {
    PyObject *guards = ((ShapeTable *)table)->guards;
    return guards == NULL ? Py_None : guards;
}

PyObject *shape_table_entry(PyObject *table, PyObject *arrays, bool *is_new) {
    ShapeTable *self = (ShapeTable *)table;
    Lengths lengths;
    if (!Py_IS_TYPE(table, ShapeTable_Type) || lengths_of_arrays(arrays, &lengths) < 0)
        return NULL;
    Instance *instance = (Instance *)Py_XNewRef((PyObject *)find(self, lengths.items, lengths.count));
    *is_new = instance == NULL;
    if (instance == NULL && (instance = make_instance(self, &lengths)) != NULL) {
        PyObject *gone = add(self, lengths.items, lengths.count, instance);
        for (Py_ssize_t i = 0; gone != NULL && i < PyList_GET_SIZE(gone); i++)
            ingot_count_use(self->evicted);
        if (gone == NULL)
            Py_CLEAR(instance);
        Py_XDECREF(gone);
    }
    end_lengths(&lengths);
    PyObject *entry = instance == NULL || instance->entry == Py_None ? NULL : Py_NewRef(instance->entry);
    Py_XDECREF((PyObject *)instance);
    return entry;
}

int shape_table_note_new(PyObject *table, PyObject *arrays, Py_ssize_t count) {
    ShapeTable *self = (ShapeTable *)table;
    ingot_count_use(self->made);
    PyObject *shapes = PyTuple_New(count);
    for (Py_ssize_t i = 0; shapes != NULL && i < count; i++)
        PyTuple_SET_ITEM(shapes, i, Py_NewRef(shape_of(PyList_GET_ITEM(arrays, i))));
    PyObject *record = shapes == NULL ? NULL : Py_BuildValue("LO", ingot_last_use(self->made), shapes);
    PyObject *done = record == NULL ? NULL : PyObject_CallMethodOneArg(self->records, attribute_names.append, record);
    Py_XDECREF(shapes);
    Py_XDECREF(record);
    Py_XDECREF(done);
    return done == NULL ? -1 : 0;
}

/* ---- Python methods ---- */

/* ShapeTable(variant, trace, limit) */
static PyObject *table_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    PyObject *variant, *trace;
    Py_ssize_t limit;
    if (!PyArg_ParseTuple(arguments, "OOn:ShapeTable", &variant, &trace, &limit))
        return NULL;
    ShapeTable *self = (ShapeTable *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->variant = Py_NewRef(variant);
    self->trace = Py_NewRef(trace);
    self->limit = limit < 1 ? 1 : limit;
    return (PyObject *)self;
}

static int read_registers(ShapeTable *self, PyObject *code, PyObject *registers) {
    Py_ssize_t count = PyTuple_GET_SIZE(registers);
    Py_ssize_t *found = PyMem_Malloc(((size_t)count + 1) * sizeof *found);
    if (found == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    PyMem_Free(self->registers);
    self->registers = found;
    self->dimension_count = count;
    for (Py_ssize_t i = 0; i < count; i++) {
        found[i] = PyLong_AsSsize_t(PyTuple_GET_ITEM(registers, i));
        if (found[i] < 0 || found[i] >= size_code_registers(code)) {
            if (!PyErr_Occurred())
                PyErr_SetString(PyExc_ValueError, "size code has no such register.");
            return -1;
        }
    }
    return 0;
}

/* prepare(guards, code, registers, programs, answer, made, evicted, records) */
static PyObject *table_prepare(ShapeTable *self, PyObject *arguments) {
    PyObject *guards, *code, *registers, *programs, *answer, *made, *evicted, *records;
    if (!PyArg_ParseTuple(arguments, "OOO!O!O!O!O!O:prepare", &guards, &code, &PyTuple_Type, &registers, &PyList_Type,
                          &programs, &PyTuple_Type, &answer, UseCounter_Type, &made, UseCounter_Type, &evicted, &records))
        return NULL;
    if ((code != Py_None && !Py_IS_TYPE(code, SizeCode_Type)) || PyTuple_GET_SIZE(answer) != STATES - DTYPES + 2) {
        PyErr_SetString(PyExc_TypeError, "prepare takes size code or None, and a tuple of five.");
        return NULL;
    }
    if (code != Py_None && read_registers(self, code, registers) < 0)
        return NULL;
    Py_XSETREF(self->guards, Py_NewRef(guards));
    Py_XSETREF(self->programs, Py_NewRef(programs));
    Py_XSETREF(self->answer, Py_NewRef(answer));
    Py_XSETREF(self->made, Py_NewRef(made));
    Py_XSETREF(self->evicted, Py_NewRef(evicted));
    Py_XSETREF(self->records, Py_NewRef(records));
    Py_XSETREF(self->code, Py_NewRef(code));
    Py_RETURN_NONE;
}

static PyObject *table_get(ShapeTable *self, PyObject *shapes) {
    Lengths lengths;
    if (!PyTuple_Check(shapes)) {
        PyErr_SetString(PyExc_TypeError, "get takes a tuple of shapes.");
        return NULL;
    }
    if (lengths_of_shapes(shapes, &lengths) < 0)
        return NULL;
    Instance *found = find(self, lengths.items, lengths.count);
    end_lengths(&lengths);
    return Py_NewRef(found == NULL ? Py_None : (PyObject *)found);
}

static PyObject *table_add(ShapeTable *self, PyObject *arguments) {
    PyObject *shapes, *instance, *gone;
    Lengths lengths;
    if (!PyArg_ParseTuple(arguments, "O!O!:add", &PyTuple_Type, &shapes, Instance_Type, &instance) ||
        lengths_of_shapes(shapes, &lengths) < 0)
        return NULL;
    gone = add(self, lengths.items, lengths.count, (Instance *)instance);
    end_lengths(&lengths);
    return gone;
}

static PyObject *table_values(ShapeTable *self, PyObject *Py_UNUSED(nothing)) {
    PyObject *list = PyList_New(0);
    for (Py_ssize_t row = 0; list != NULL && row < self->count; row++) {
        if (PyList_Append(list, (PyObject *)self->instances[row]) < 0)
            Py_CLEAR(list);
    }
    return list;
}

static Py_ssize_t table_length(ShapeTable *self) {
    return self->count;
}

static int table_traverse(ShapeTable *self, visitproc visit, void *arg) {
    for (Py_ssize_t row = 0; row < self->count; row++)
        Py_VISIT(self->instances[row]);
    Py_VISIT(self->variant);
    Py_VISIT(self->trace);
    Py_VISIT(self->guards);
    Py_VISIT(self->programs);
    Py_VISIT(self->answer);
    Py_VISIT(self->records);
    Py_VISIT(Py_TYPE(self));
    return 0;
}

static int table_clear(ShapeTable *self) {
    Py_ssize_t count = self->count;
    self->count = 0;
    for (Py_ssize_t row = 0; row < count; row++)
        Py_DECREF((PyObject *)self->instances[row]);
    Py_CLEAR(self->variant);
    Py_CLEAR(self->trace);
    Py_CLEAR(self->guards);
    Py_CLEAR(self->programs);
    Py_CLEAR(self->answer);
    Py_CLEAR(self->records);
    return 0;
}

static void table_dealloc(ShapeTable *self) {
    PyObject_GC_UnTrack(self);
    table_clear(self);
    Py_XDECREF(self->code);
    Py_XDECREF(self->made);
    Py_XDECREF(self->evicted);
    PyMem_Free(self->registers);
    PyMem_Free(self->rows);
    PyMem_Free(self->instances);
    PyMem_Free(self->index);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

LOCKS_METHOD(table_get)
LOCKS_METHOD(table_add)
LOCKS_METHOD(table_values)
LOCKS_METHOD(table_prepare)

static PyMethodDef table_methods[] = {
    {"get", (PyCFunction)LOCKED(table_get), METH_O, "get(shapes) -> the instance for them, or None"},
    {"add", (PyCFunction)LOCKED(table_add), METH_VARARGS, "add(shapes, instance) -> the instances that were evicted"},
    {"values", (PyCFunction)LOCKED(table_values), METH_NOARGS, "values() -> all instances"},
    {"prepare", (PyCFunction)LOCKED(table_prepare), METH_VARARGS,
     "prepare(guards, code, registers, programs, answer, made, evicted, records): enables native code to create instances"},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot table_slots[] = {
    {Py_tp_new, table_new},
    {Py_tp_traverse, table_traverse},
    {Py_tp_clear, table_clear},
    {Py_tp_dealloc, table_dealloc},
    {Py_tp_methods, table_methods},
    {Py_sq_length, table_length},
    {Py_tp_doc, "ShapeTable(variant, trace, limit): the instances of a trace by the shapes of its inputs, with LRU eviction."},
    {0, NULL},
};

static PyType_Spec table_spec = {
    .name = "ingot._native.ShapeTable",
    .basicsize = sizeof(ShapeTable),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = table_slots,
};

int ingot_add_shape_table(PyObject *module) {
    ShapeTable_Type = (PyTypeObject *)PyType_FromSpec(&table_spec);
    return ShapeTable_Type == NULL ? -1 : PyModule_AddObjectRef(module, "ShapeTable", (PyObject *)ShapeTable_Type);
}
