/* Python bindings of the allocator's counters and limits. runtime/memory.py exposes them to users. */
#include "native.h"

#include "memory/allocator.h"
#include "programs/kept_panels.h"
#include "threads/machine.h"

/* A number of bytes; values beyond what a machine can have are clamped. */
static Py_ssize_t bytes_argument(PyObject *number, const char *function) {
    Py_ssize_t bytes = PyNumber_AsSsize_t(number, NULL);
    if (bytes < 0 && !PyErr_Occurred()) {
        PyErr_Format(PyExc_ValueError, "[%s] the limit must not be negative, got %S.", function, number);
    }
    return bytes;
}

static PyObject *get_active_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return PyLong_FromSize_t(ingot_active_memory());
}

static PyObject *get_peak_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return PyLong_FromSize_t(ingot_peak_memory());
}

static PyObject *get_cache_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return PyLong_FromSize_t(ingot_cache_memory());
}

static PyObject *reset_peak_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    ingot_reset_peak_memory();
    Py_RETURN_NONE;
}

/* Without the GIL: unmapping many gigabytes takes a while. */
static PyObject *clear_cache(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    ingot_forget_all_panels();
    Py_BEGIN_ALLOW_THREADS
    ingot_clear_cache();
    Py_END_ALLOW_THREADS
    Py_RETURN_NONE;
}

static PyObject *set_cache_limit(PyObject *Py_UNUSED(module), PyObject *number) {
    Py_ssize_t bytes = bytes_argument(number, "set_cache_limit");
    return bytes < 0 ? NULL : PyLong_FromSize_t(ingot_set_cache_limit((size_t)bytes));
}

static PyObject *set_memory_limit(PyObject *Py_UNUSED(module), PyObject *number) {
    Py_ssize_t bytes = bytes_argument(number, "set_memory_limit");
    return bytes < 0 ? NULL : PyLong_FromSize_t(ingot_set_memory_limit((size_t)bytes));
}

static PyObject *get_memory_limit(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return PyLong_FromSize_t(ingot_memory_limit());
}

static PyObject *set_memory_poison(PyObject *Py_UNUSED(module), PyObject *argument) {
    int poisons = PyObject_IsTrue(argument);
    return poisons < 0 ? NULL : PyBool_FromLong(ingot_set_memory_poison(poisons));
}

static PyObject *limit_or_none(int64_t limit) {
    return limit == INGOT_NO_LIMIT ? Py_NewRef(Py_None) : PyLong_FromLongLong(limit);
}

static PyObject *cgroup_limits(PyObject *Py_UNUSED(module), PyObject *argument) {
    const char *root = PyUnicode_AsUTF8(argument);
    if (root == NULL) {
        return NULL;
    }
    return Py_BuildValue("NN", limit_or_none(ingot_cgroup_memory(root)), limit_or_none(ingot_cgroup_cpus(root)));
}

static PyMethodDef functions[] = {
    {"get_active_memory", get_active_memory, METH_NOARGS, "get_active_memory(): bytes in blocks handed out"},
    {"get_peak_memory", get_peak_memory, METH_NOARGS, "get_peak_memory(): the most that was ever active"},
    {"reset_peak_memory", reset_peak_memory, METH_NOARGS, "reset_peak_memory(): sets the peak to 0"},
    {"get_cache_memory", get_cache_memory, METH_NOARGS, "get_cache_memory(): bytes kept for reuse"},
    {"clear_cache", clear_cache, METH_NOARGS, "clear_cache(): gives the cache back to the system"},
    {"set_cache_limit", set_cache_limit, METH_O, "set_cache_limit(bytes): returns the old limit"},
    {"get_memory_limit", get_memory_limit, METH_NOARGS, "get_memory_limit() -> bytes"},
    {"set_memory_limit", set_memory_limit, METH_O, "set_memory_limit(bytes): returns the old limit"},
    {"set_memory_poison", set_memory_poison, METH_O,
     "set_memory_poison(on): whether new blocks are filled with 0xFF, for tests; returns the old setting"},
    {"cgroup_limits", cgroup_limits, METH_O,
     "cgroup_limits(root): (bytes or None, CPUs or None); root goes before /proc and /sys, '' is the machine"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_allocator(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
