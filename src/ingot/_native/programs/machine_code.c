/* MachineCode: a compiled kernel in executable, read-only memory, which is unmapped with the last reference. */
#include "native.h"

#include <stdatomic.h>
#include <structmember.h>
#include <sys/mman.h>
#include <unistd.h>

typedef struct {
    PyObject_HEAD
    char *memory; /* a mapping of its own; NULL if `keeper` owns the code */
    size_t mapped;
    PyObject *keeper;  /* the object that loaded the code and frees it; NULL if it is mapped here */
    long long address; /* entry point */
    Py_ssize_t nbytes;
    PyObject *weak_references;
} MachineCode;

PyTypeObject *MachineCode_Type;

/* Totals of what is mapped now. */
static atomic_llong live_count, live_bytes;

void *ingot_code_address(PyObject *code) {
    return (void *)(uintptr_t)((MachineCode *)code)->address;
}

/* Relocates: adds the image's address to its 64-bit words at the offsets `relocations`. */
static int relocate(char *memory, Py_ssize_t length, PyObject *relocations) {
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(relocations); i++) {
        Py_ssize_t offset = PyLong_AsSsize_t(PyTuple_GET_ITEM(relocations, i));
        uint64_t number;
        if (offset == -1 && PyErr_Occurred())
            return -1;
        if (offset < 0 || offset > length - (Py_ssize_t)sizeof number) {
            PyErr_SetString(PyExc_ValueError, "a relocation is outside of the image.");
            return -1;
        }
        memcpy(&number, memory + offset, sizeof number);
        number += (uint64_t)(uintptr_t)memory;
        memcpy(memory + offset, &number, sizeof number);
    }
    return 0;
}

static int map_image(MachineCode *self, const Py_buffer *image, PyObject *relocations, Py_ssize_t function) {
    if (function < 0 || function >= image->len) {
        PyErr_SetString(PyExc_ValueError, "the function is outside of the image.");
        return -1;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    self->mapped = ((size_t)image->len + page - 1) / page * page;
    char *memory = mmap(NULL, self->mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    self->memory = memory;
    memcpy(memory, image->buf, (size_t)image->len);
    if (relocate(memory, image->len, relocations) < 0)
        return -1;
    if (mprotect(memory, self->mapped, PROT_READ | PROT_EXEC) != 0) {
        PyErr_SetFromErrno(PyExc_OSError);
        return -1;
    }
    __builtin___clear_cache(memory, memory + image->len); /* nothing on x86, where instruction fetches see stores */
    self->address = (long long)(uintptr_t)(memory + function);
    return 0;
}

static void count_code(const MachineCode *self, int sign) {
    live_count += sign;
    live_bytes += sign * (long long)(self->memory == NULL ? (size_t)self->nbytes : self->mapped);
}

/* MachineCode(image, relocations, function): a copy of the image, relocated by adding its address to the 64-bit words at the
 * offsets `relocations`; `function` is the offset of the entry point. */
static PyObject *code_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    Py_buffer image;
    PyObject *relocations;
    Py_ssize_t function;
    if (!PyArg_ParseTuple(arguments, "y*O!n:MachineCode", &image, &PyTuple_Type, &relocations, &function))
        return NULL;
    MachineCode *self = (MachineCode *)type->tp_alloc(type, 0);
    if (self != NULL && map_image(self, &image, relocations, function) < 0)
        Py_CLEAR(self);
    if (self != NULL) {
        self->nbytes = image.len;
        count_code(self, 1);
    }
    PyBuffer_Release(&image);
    return (PyObject *)self;
}

/* kept_by(keeper, address, nbytes): code that another object loaded and keeps alive. */
static PyObject *kept_by(PyObject *type, PyObject *arguments) {
    PyObject *keeper;
    unsigned long long address;
    Py_ssize_t nbytes;
    if (!PyArg_ParseTuple(arguments, "OKn:kept_by", &keeper, &address, &nbytes))
        return NULL;
    MachineCode *self = (MachineCode *)((PyTypeObject *)type)->tp_alloc((PyTypeObject *)type, 0);
    if (self == NULL)
        return NULL;
    self->keeper = Py_NewRef(keeper);
    self->address = (long long)address;
    self->nbytes = nbytes;
    count_code(self, 1);
    return (PyObject *)self;
}

static void code_dealloc(MachineCode *self) {
    if (self->weak_references != NULL)
        PyObject_ClearWeakRefs((PyObject *)self);
    if (self->address != 0)
        count_code(self, -1);
    if (self->memory != NULL)
        munmap(self->memory, self->mapped);
    Py_XDECREF(self->keeper);
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyMethodDef methods[] = {
    {"kept_by", kept_by, METH_VARARGS | METH_CLASS, "kept_by(keeper, address, nbytes) -> code that `keeper` loaded"},
    {NULL, NULL, 0, NULL},
};

static PyMemberDef members[] = {
    {"address", T_LONGLONG, offsetof(MachineCode, address), READONLY, "The address of the entry point."},
    {"nbytes", T_PYSSIZET, offsetof(MachineCode, nbytes), READONLY, "The size of the code and its constants."},
    {"__weaklistoffset__", T_PYSSIZET, offsetof(MachineCode, weak_references), READONLY, NULL},
    {NULL, 0, 0, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_new, code_new},
    {Py_tp_dealloc, code_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_members, members},
    {Py_tp_doc, "A compiled kernel in executable memory, which is unmapped with the last reference."},
    {0, NULL},
};

static PyType_Spec spec = {
    .name = "ingot._native.MachineCode",
    .basicsize = sizeof(MachineCode),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

static PyObject *code_in_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(nothing)) {
    return Py_BuildValue("LL", atomic_load(&live_count), atomic_load(&live_bytes));
}

static PyMethodDef functions[] = {
    {"code_in_memory", code_in_memory, METH_NOARGS, "The number of kernels in memory, and their size in bytes."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_machine_code(PyObject *module) {
    MachineCode_Type = (PyTypeObject *)PyType_FromSpec(&spec);
    if (MachineCode_Type == NULL || PyModule_AddObjectRef(module, "MachineCode", (PyObject *)MachineCode_Type) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
