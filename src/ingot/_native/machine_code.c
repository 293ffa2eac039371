/* Machine code that was made before: an image in memory of its own that may be run and not written. */
#include "native.h"

#include <sys/mman.h>
#include <unistd.h>

/* load_code(image, places) -> address: the image, to whose 64-bit numbers at `places` its address is added. It stays for
 * the life of the process. */
static PyObject *load_code(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_buffer image;
    PyObject *places;
    if (!PyArg_ParseTuple(arguments, "y*O!:load_code", &image, &PyTuple_Type, &places))
        return NULL;
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t size = ((size_t)image.len + page) / page * page;
    char *memory = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        PyBuffer_Release(&image);
        return PyErr_SetFromErrno(PyExc_OSError);
    }
    memcpy(memory, image.buf, (size_t)image.len);
    bool fits = true;
    for (Py_ssize_t i = 0; fits && i < PyTuple_GET_SIZE(places); i++) {
        Py_ssize_t place = PyLong_AsSsize_t(PyTuple_GET_ITEM(places, i));
        uint64_t number;
        fits = place >= 0 && place <= image.len - (Py_ssize_t)sizeof number;
        if (!fits)
            break;
        memcpy(&number, memory + place, sizeof number);
        number += (uint64_t)(uintptr_t)memory;
        memcpy(memory + place, &number, sizeof number);
    }
    PyBuffer_Release(&image);
    if (!fits && !PyErr_Occurred())
        PyErr_SetString(PyExc_ValueError, "a place to be adjusted is outside of the image.");
    else if (fits && mprotect(memory, size, PROT_READ | PROT_EXEC) != 0)
        PyErr_SetFromErrno(PyExc_OSError);
    if (PyErr_Occurred()) {
        munmap(memory, size);
        return NULL;
    }
    return PyLong_FromVoidPtr(memory);
}

static PyMethodDef functions[] = {
    {"load_code", load_code, METH_VARARGS, "load_code(image, places) -> the address of a copy of the image that can be run"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_machine_code(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
