/* Declarations shared by the whole extension: dtypes, nodes and arrays. */
#ifndef INGOT_NATIVE_H
#define INGOT_NATIVE_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdbool.h>
#include <stdint.h>

#include "callbacks.h"
#include "threads/clock.h"
#include "threads/engine_lock.h"

/* ---- dtypes (dtype.c) ---- */

enum {
    BOOL,
    UINT8,
    UINT16,
    UINT32,
    UINT64,
    INT8,
    INT16,
    INT32,
    INT64,
    FLOAT16,
    BFLOAT16,
    FLOAT32,
    FLOAT64,
    COMPLEX64,
    DTYPE_COUNT
};

typedef struct {
    PyObject_HEAD
    const char *name;
    int number;
    int itemsize;
    PyObject *numpy; /* numpy.dtype, set by graph/dtype.py; that of bfloat16 is NULL before it is used (`dtype_numpy`) */
} Dtype;

extern PyTypeObject *Dtype_Type;
extern Dtype *dtype_table[DTYPE_COUNT];

Dtype *dtype_promote(Dtype *a, Dtype *b);
PyObject *dtype_numpy(Dtype *self); /* borrowed; NULL with an exception */
static inline bool dtype_is_integer(Dtype *t) {
    return t->number >= UINT8 && t->number <= INT64;
}
static inline bool dtype_is_inexact(Dtype *t) {
    return t->number >= FLOAT16;
}

/* ---- nodes (node.c) ---- */

typedef struct Node {
    PyObject_HEAD
    PyObject *op;     /* NULL for leaves and for nodes whose inputs were dropped after evaluation */
    PyObject *inputs; /* tuple of Node, or NULL */
    PyObject *shape;  /* tuple of ints; a tuple of shapes when the op has several outputs */
    PyObject *dtype;  /* Dtype; a tuple of them when the op has several outputs */
    PyObject *stream;
    PyObject *data;      /* numpy.ndarray, a tuple of them for several outputs, or NULL before evaluation */
    PyObject *suspended; /* an interrupted run of a program that has already overwritten donated memory, or NULL */
    PyObject *pending;   /* callable that waits for an asynchronous evaluation and raises its error, or NULL */
    PyObject *source;    /* the user's line that made the node, recorded while compile traces, or NULL */
    PyCodeObject *code;  /* code object of the user's line, or NULL; `instruction` is the offset in it */
    PyObject *trace;     /* the recorder of the trace that made the node; something else for shared scalars; or NULL */
    uint64_t mark;       /* the last traversal that saw this node */
    bool tracer;
    int instruction;
    int running;          /* nonzero: being evaluated by a thread that has taken op and inputs out */
    unsigned long runner; /* that thread */
} Node;

extern PyTypeObject *Node_Type;

/* Steals no references. `op` may be NULL (a leaf). `node_new` checks the shape and records the user's line; the
 * other is the fast path for results of compiled calls, whose shapes were checked by the trace and whose ops have
 * lines of their own. */
Node *node_new_without_line(PyObject *op, PyObject *inputs, PyObject *shape, PyObject *dtype, PyObject *stream);
Node *node_new(PyObject *op, PyObject *inputs, PyObject *shape, PyObject *dtype, PyObject *stream);
/* The stream that `requested` (None, a Stream or a Device) denotes: a borrowed reference, NULL on error. */
PyObject *resolve_stream(PyObject *requested);
/* Drops the op and inputs of an evaluated node. */
void node_detach(Node *node);
/* Whether compile is tracing on this thread. */
bool recording_sources(void);
uint64_t next_mark(void);
/* Reserves the next `count` marks after the last one. */
void advance_marks(uint64_t count);

/* ---- the user's line (user_line.c) ---- */

/* The code of the innermost frame outside the package, a new reference, and the offset of its current instruction;
 * NULL if there is none. Never fails. */
PyCodeObject *ingot_user_code(int *instruction);
/* The node whose line new nodes of this thread inherit, because a transform is applying its rule: borrowed, or NULL. */
Node *ingot_line_of(void);
/* Sets it to `node` (NULL: none). Returns the previous one, an owned reference or NULL. */
Node *ingot_take_line_of(Node *node);

/* ---- node lists (node_list.c) ---- */

typedef struct {
    Node **items;
    Py_ssize_t count, capacity;
} NodeList;

/* Steals a reference to the node if the list is to be released with node_list_release, else none. */
int node_list_push(NodeList *list, Node *node);
/* Appends the nodes of a sequence of arrays and nodes, with references. */
int node_list_collect(PyObject *sequence, NodeList *list);
void node_list_release(NodeList *list);
/* A new Python list of the nodes. */
PyObject *node_list_as_list(const NodeList *list);

/* ---- arrays (array.c) ---- */

typedef struct {
    PyObject_HEAD
    Node *node;
    PyObject *weak_references;
} Array;

extern PyTypeObject *Array_Type;

PyObject *array_from_node(Node *node);            /* steals the reference */
void array_point_to(PyObject *array, Node *node); /* steals the reference */
static inline bool is_array(PyObject *object) {
    return PyObject_TypeCheck(object, Array_Type);
}
/* The node of an array or of a node: borrowed; NULL with TypeError otherwise. */
Node *as_node(PyObject *object);

/* ---- applying elementwise ops (lift.c) ---- */

extern PyTypeObject *Lift_Type;
/* A node with the values of `input`, whose reference it steals, in a dtype; `input` itself if it has that dtype. */
Node *cast_node(Node *input, Dtype *dtype, PyObject *stream);
PyObject *lift_apply(PyObject *lift, PyObject *const *operands, Py_ssize_t count, PyObject *stream);

/* ---- evaluation (run_node.c, evaluate.c) ---- */

/* Computes one node, whose inputs have values, or waits for the thread that does. `wanted` is the node it is
 * computed for. With `computes_pending`, asynchronous evaluations are not waited for. `tracing`: a transform is
 * running, whose tracers keep their inputs. */
int run_node(Node *node, Node *wanted, bool computes_pending, bool tracing);
/* Checks what a rule returned and converts it to ndarrays of exactly the inferred shapes and dtypes: a new
 * reference. */
PyObject *checked_results(PyObject *op, PyObject *results, Node *node);

/* Whether a transform is running on this thread. */
bool ingot_is_tracing(void);
int evaluate_nodes(Node **outputs, Py_ssize_t count);
/* The node's NumPy array, evaluated first if needed: a new reference. */
PyObject *node_view(Node *node);

/* ---- compiled programs (program.c, run_program.c) ---- */

bool ingot_is_program(PyObject *object);
/* Whether the program may write an output into this input's memory. */
bool ingot_program_may_reuse(PyObject *program, Py_ssize_t input);
/* Runs a program and returns a tuple of ndarrays; NotImplemented if an input does not have the layout the program
 * was compiled for. `donated` says which inputs nobody else will read, so that outputs may reuse their memory (NULL:
 * none). A run that is interrupted after it wrote to donated memory cannot restart: `*suspended` gets the state to
 * resume it from. */
PyObject *ingot_program_run(PyObject *program, PyObject *const *inputs, Py_ssize_t count, const bool *donated,
                            PyObject **suspended);
/* Returns the results; NULL if it is interrupted again, in which case it may be called again. */
PyObject *ingot_resume_program(PyObject *suspended);

/* ---- machine code (machine_code.c) ---- */

extern PyTypeObject *MachineCode_Type;
void *ingot_code_address(PyObject *code); /* `code` must be of that type; valid while there is a reference to it */

/* ---- implicit states (fast_call.c) ---- */

/* Tries to acquire the lock that is held while states are read and replaced; -1 on error. */
int ingot_try_lock_states(void);
/* Releases it, preserving the current exception; -1 if there is one. */
int ingot_unlock_states(void);

/* ---- counters (use_counter.c) ---- */

extern PyTypeObject *UseCounter_Type;
void ingot_count_use(PyObject *counter); /* `counter` must be of that type */
long long ingot_last_use(PyObject *counter);

/* ---- errors (failure.c) ---- */

/* Each of these rewrites the current exception. */
void ingot_explain_node(Node *node);
void ingot_explain_instruction(PyObject *about, Py_ssize_t number);
void ingot_shorten_traceback(void);

/* ---- profiles (profile.c) ---- */

/* Reports to the profiler, if one is running; errors are only printed, because the work itself is done. Steals
 * `times`. */
void ingot_report_node(Node *node, int64_t begin);
void ingot_report_program(PyObject *about, PyObject *times);
void ingot_report_loop(PyObject *about, PyObject *times, Py_ssize_t steps);

int ingot_add_callbacks(PyObject *module);
int ingot_add_dtype(PyObject *module);
int ingot_add_node(PyObject *module);
int ingot_add_user_line(PyObject *module);
int ingot_add_array(PyObject *module);
int ingot_add_lift(PyObject *module);
int ingot_add_evaluate(PyObject *module);
int ingot_add_run_node(PyObject *module);
int ingot_add_structure(PyObject *module);
int ingot_add_signature(PyObject *module);
int ingot_add_guards(PyObject *module);
int ingot_add_fast_call(PyObject *module);
int ingot_add_size_code(PyObject *module);
int ingot_add_instance(PyObject *module);
int ingot_add_shape_table(PyObject *module);
int ingot_add_program(PyObject *module);
int ingot_add_program_template(PyObject *module);
int ingot_add_holders(PyObject *module);
int ingot_add_kept_panels(PyObject *module);
int ingot_add_run_program(PyObject *module);
int ingot_add_nested(PyObject *module);
int ingot_add_interrupt(PyObject *module);
int ingot_add_failure(PyObject *module);
int ingot_add_tree(PyObject *module);
int ingot_add_use_counter(PyObject *module);
int ingot_add_backward(PyObject *module);
int ingot_add_allocator(PyObject *module);
int ingot_add_buffer(PyObject *module);
int ingot_add_numpy_memory(PyObject *module);
int ingot_add_pack(PyObject *module);
int ingot_add_machine_code(PyObject *module);
int ingot_add_pool(PyObject *module);
int ingot_add_top_k(PyObject *module);
int ingot_add_rows(PyObject *module);
int ingot_add_list_search(PyObject *module);
int ingot_add_product(PyObject *module);
int ingot_add_small_product(PyObject *module);
int ingot_add_ordered_sum(PyObject *module);
int ingot_add_checked(PyObject *module);
int ingot_add_field_init(PyObject *module);
int ingot_add_dispatch(PyObject *module);
int ingot_add_whole_graph(PyObject *module);
int ingot_add_routine(PyObject *module);
int ingot_add_fourier(PyObject *module);
int ingot_add_attention(PyObject *module);
int ingot_add_mailbox(PyObject *module);
int ingot_add_order(PyObject *module);
int ingot_add_progress(PyObject *module);
int ingot_add_attributes(PyObject *module);
int ingot_add_sources(PyObject *module);

#endif
