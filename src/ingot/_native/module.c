/* The extension module `ingot._native`: registers the types and functions of all files. */
#include "native.h"
#define INGOT_IMPORTS_NUMPY
#include "numpy_api.h"
#include "tuning.h"

/* tuning() -> the constants that the extension was built with, by name; a test compares them with those of tuning.py */
static PyObject *tuning(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    static const struct {
        const char *name;
        long long value;
    } numbers[] = {
#define NUMBER(name) {#name, name},
        INGOT_TUNING(NUMBER)
#undef NUMBER
    };
    PyObject *found = PyDict_New();
    for (size_t i = 0; found != NULL && i < sizeof numbers / sizeof *numbers; i++) {
        PyObject *value = PyLong_FromLongLong(numbers[i].value);
        if (value == NULL || PyDict_SetItemString(found, numbers[i].name, value) < 0)
            Py_CLEAR(found);
        Py_XDECREF(value);
    }
    return found;
}

static PyMethodDef functions[] = {
    {"tuning", tuning, METH_NOARGS, "tuning() -> the numbers of tuning.py that the extension was built with"},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    .m_name = "ingot._native",
    .m_doc = "Buffers, the thread pool, dtypes, nodes, arrays and the evaluation loop.",
    .m_size = -1,
    .m_methods = functions,
};

PyMODINIT_FUNC PyInit__native(void) {
    static int (*const parts[])(PyObject *) = {
        ingot_add_engine_lock, ingot_add_callbacks,   ingot_add_dtype,        ingot_add_node,        ingot_add_user_line,
        ingot_add_array,       ingot_add_lift,        ingot_add_evaluate,     ingot_add_run_node,    ingot_add_structure,
        ingot_add_signature,   ingot_add_guards,      ingot_add_fast_call,    ingot_add_tree,        ingot_add_backward,
        ingot_add_program,     ingot_add_run_program, ingot_add_nested,       ingot_add_interrupt,   ingot_add_failure,
        ingot_add_allocator,   ingot_add_buffer,      ingot_add_numpy_memory, ingot_add_pack,        ingot_add_pool,
        ingot_add_top_k,       ingot_add_list_search, ingot_add_product,      ingot_add_ordered_sum, ingot_add_machine_code,
        ingot_add_use_counter, ingot_add_checked,     ingot_add_rows,         ingot_add_dispatch,    ingot_add_whole_graph,
        ingot_add_routine,     ingot_add_size_code,   ingot_add_instance,     ingot_add_shape_table, ingot_add_program_template,
        ingot_add_attention,   ingot_add_fourier,     ingot_add_field_init,   ingot_add_mailbox,     ingot_add_order,
        ingot_add_progress,    ingot_add_kept_panels, ingot_add_holders,      ingot_add_attributes,  ingot_add_small_product,
        ingot_add_sources,
    };
    if (PyArray_ImportNumPyAPI() < 0)
        return NULL;
    PyObject *module = PyModule_Create(&definition);
    for (size_t i = 0; module != NULL && i < sizeof parts / sizeof *parts; i++) {
        if (parts[i](module) < 0)
            Py_CLEAR(module);
    }
    return module;
}
