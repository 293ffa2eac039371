/* The interface from C to Python: all that C calls in the Python part of the package, and all attributes of its
 * classes that C reads by name. Python fills the table with `set_callbacks`, which accepts no other names;
 * `graph/callbacks.py` has the types, and a test compares the two. What C offers to Python is in `_native.pyi`. */
#ifndef INGOT_CALLBACKS_H
#define INGOT_CALLBACKS_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>

/* Set when the package is imported, and never cleared. */
#define INGOT_CALLBACKS(CALLBACK) \
    CALLBACK(construct)           \
    CALLBACK(coerce)              \
    CALLBACK(scalar)              \
    CALLBACK(dtype_named)         \
    CALLBACK(numpy_bfloat16)      \
    CALLBACK(resolve_stream)      \
    CALLBACK(source_of)           \
    CALLBACK(state_lock)          \
    CALLBACK(operand_error)       \
    CALLBACK(keyword_refused)     \
    CALLBACK(placeholder_error)   \
    CALLBACK(parameter_kinds)     \
    CALLBACK(taken_arguments)     \
    CALLBACK(cast)                \
    CALLBACK(broadcast)           \
    CALLBACK(broadcast_shapes)    \
    CALLBACK(conjugate)           \
    CALLBACK(elementwise_vjp)     \
    CALLBACK(outputs_of)          \
    CALLBACK(output_type)         \
    CALLBACK(view_type)           \
    CALLBACK(evaluate_large)      \
    CALLBACK(make_context)        \
    CALLBACK(explain_node)        \
    CALLBACK(explain_instruction)

/* NULL while disabled, or until the module that provides them is imported: C checks for that. */
#define INGOT_OPTIONAL_CALLBACKS(CALLBACK) \
    CALLBACK(shorten)                      \
    CALLBACK(fuse)                         \
    CALLBACK(run_checked)                  \
    CALLBACK(run_kernel)                   \
    CALLBACK(alone_type)                   \
    CALLBACK(program_alone)                \
    CALLBACK(map_type)                     \
    CALLBACK(reduce_type)                  \
    CALLBACK(program_often)                \
    CALLBACK(ordered_type)                 \
    CALLBACK(token)                        \
    CALLBACK(finish_type)                  \
    CALLBACK(reduction_type)               \
    CALLBACK(small_reduction)              \
    CALLBACK(ran_node)                     \
    CALLBACK(ran_program)                  \
    CALLBACK(ran_loop)                     \
    CALLBACK(update_type)                  \
    CALLBACK(sum_of_slices)                \
    CALLBACK(compiled_type)                \
    CALLBACK(shaped_type)                  \
    CALLBACK(enum_metatype)                \
    CALLBACK(partial_type)

/* (class that has the attribute, name) */
#define INGOT_ATTRIBUTES(ATTRIBUTE)        \
    ATTRIBUTE(Op, evaluate)                \
    ATTRIBUTE(Op, change)                  \
    ATTRIBUTE(Op, vjp)                     \
    ATTRIBUTE(Pointwise, partials)         \
    ATTRIBUTE(Output, index)               \
    ATTRIBUTE(Compiled, program)           \
    ATTRIBUTE(Program, native)             \
    ATTRIBUTE(Program, plan)               \
    ATTRIBUTE(Program, by_strides)         \
    ATTRIBUTE(SymbolicProgram, template)   \
    ATTRIBUTE(CompiledFunction, slow_call) \
    ATTRIBUTE(deque, append)               \
    ATTRIBUTE(RLock, acquire)              \
    ATTRIBUTE(RLock, release)

typedef struct {
#define FIELD(name) PyObject *name;
    INGOT_CALLBACKS(FIELD)
    INGOT_OPTIONAL_CALLBACKS(FIELD)
#undef FIELD
} Callbacks;

typedef struct {
#define FIELD(owner, name) PyObject *name;
    INGOT_ATTRIBUTES(FIELD)
#undef FIELD
} AttributeNames;

extern Callbacks callbacks;
extern AttributeNames attribute_names; /* interned strings */

/* The callback, borrowed; NULL with an error, rather than a crash, when the extension is used without the package. */
#define REQUIRED(name) (callbacks.name != NULL ? callbacks.name : ingot_missing_callback(#name))
PyObject *ingot_missing_callback(const char *name);

#endif
