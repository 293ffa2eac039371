/* The extension module `ingot._native`: puts the parts together and takes the hooks from Python. */
#include "native.h"
#define INGOT_IMPORTS_NUMPY
#include "numpy_api.h"

#include <stddef.h>

Hooks hooks;

PyObject *require_hook(PyObject *hook, const char *name) {
    if (hook == NULL)
        PyErr_Format(PyExc_RuntimeError, "ingot._native was used before ingot.core was imported (no %s).", name);
    return hook;
}

#define HOOK(name) {#name, offsetof(Hooks, name)}

static const struct {
    const char *name;
    size_t offset;
} hook_table[] = {
    HOOK(construct), HOOK(coerce), HOOK(scalar), HOOK(astype), HOOK(broadcast), HOOK(broadcast_shapes),
    HOOK(resolve_stream), HOOK(placeholder_error), HOOK(make_context),
    HOOK(operand_error), HOOK(enum_metatype), HOOK(partial_type), HOOK(compiled_type), HOOK(output_type), HOOK(fuse),
    HOOK(run_checked), HOOK(run_kernel), HOOK(source_of), HOOK(ran_node), HOOK(ran_program), HOOK(parameter_kinds),
    HOOK(taken_arguments), HOOK(explain_node), HOOK(explain_instruction), HOOK(shorten), HOOK(evaluate_large),
};

/* set_hook(name, function); None removes it */
static PyObject *set_hook(PyObject *Py_UNUSED(module), PyObject *arguments) {
    const char *name;
    PyObject *function;
    if (!PyArg_ParseTuple(arguments, "sO:set_hook", &name, &function))
        return NULL;
    for (size_t i = 0; i < sizeof hook_table / sizeof *hook_table; i++) {
        if (strcmp(name, hook_table[i].name) == 0) {
            PyObject **hook = (PyObject **)((char *)&hooks + hook_table[i].offset);
            Py_XSETREF(*hook, function == Py_None ? NULL : Py_NewRef(function));
            Py_RETURN_NONE;
        }
    }
    PyErr_Format(PyExc_ValueError, "there is no hook named %s.", name);
    return NULL;
}

static PyMethodDef functions[] = {
    {"set_hook", set_hook, METH_VARARGS, "set_hook(name, function): a Python function that the C code calls"},
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
        ingot_add_dtype, ingot_add_node, ingot_add_user_line, ingot_add_array, ingot_add_lift, ingot_add_evaluate, ingot_add_run_node,
        ingot_add_structure, ingot_add_signature, ingot_add_guards, ingot_add_fast_call, ingot_add_tree, ingot_add_backward,
        ingot_add_program, ingot_add_run_program, ingot_add_interrupt, ingot_add_failure, ingot_add_allocator,
        ingot_add_buffer, ingot_add_numpy_memory, ingot_add_pack, ingot_add_pool, ingot_add_top_k, ingot_add_list_search,
        ingot_add_product, ingot_add_ordered_sum, ingot_add_machine_code, ingot_add_use_counter, ingot_add_checked,
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
