/* The in-memory representation of a compiled program, built by program.c and run by run_program.c. */
#ifndef INGOT_PROGRAM_H
#define INGOT_PROGRAM_H

#include "native.h"
#include "calls/size_code.h"
#include "products/product.h"
#include "programs/kept_panels.h"

typedef struct {
    int slot;
    Py_ssize_t offset;
} Argument;

enum { KERNEL, GEMM, HOST, CHECK, NESTED, ROUTINE };

typedef struct {
    int kind;
    void *function;       /* kernels */
    PyObject *code;       /* kernels: the MachineCode in which the function is */
    int64_t parts, grain; /* kernels */
    int count;            /* kernels: how many arguments; host steps: how many results */
    Argument *arguments;  /* kernels, routines, loops and branches: all; BLAS: a, b, c; host steps: the result slots; checks:
                             the flag */
    /* host steps, checks, and what native code may fail to compute: called with views of the operands; NULL until a template
     * makes it */
    PyObject *host;
    Py_ssize_t first_view, view_count; /* the operands of `host` */
    Product *product;                  /* BLAS */
    PyObject *nested;                  /* loops and branches: a NestedProgram; routines: a NativeRoutine */
    int kept;                          /* kernels: 1 + the number of the kept panels that it computes, or 0 */
} Instruction;

/* An array in the memory of a slot. Its offset in bytes, lengths and strides are in the program's `view_numbers`, from
 * `first` on. */
typedef struct {
    int slot, axes;
    Py_ssize_t first;
    PyObject *dtype; /* NumPy's */
} View;

/* The address of a constant. */
typedef struct {
    Py_ssize_t slot;
    char *data;
} OwnConstant;

/* Iterations of a loop in one call: the first carried values are at `carried`, the others at `outputs`, where the last ones
 * are stored; slices are those number `position`, `position + direction` and so on. Returns how many ran: `steps`, or less
 * if a flag, the last output, was clear after one; -1 if an inner loop called `poll` and had to stop, -2 if
 * a check failed. */
typedef int64_t (*RepeatFunction)(char *const *carried, char *const *inputs, char *const *outputs, char *const *constants,
                                  bool (*poll)(void), int64_t position, int64_t direction, int64_t steps);

typedef struct {
    PyObject_HEAD
    Py_ssize_t input_count, output_count, constant_count, slot_count, arena_slot, instruction_count;
    PyObject *output_shapes, *output_dtypes; /* tuples, of the arrays that a run allocates; dtypes are NumPy's */
    PyObject *result_shapes;                 /* tuple */
    int *donors;                             /* for each output the input whose memory it may reuse, or -1 */
    bool *reusable;                          /* for each input whether some output may reuse its memory */
    PyObject *constants;                     /* tuple of ndarrays */
    PyObject *about;                         /* describes the instructions, for profiles */
    size_t arena;
    Py_ssize_t argument_count; /* the maximum of a kernel */
    Py_ssize_t host_count;     /* instructions up to the last host step */
    Py_ssize_t *first_use;     /* for each output the first instruction that uses its memory */
    bool has_host, releases_gil, any_layout;
    Instruction *instructions;
    View *views;             /* those of the instructions in order, then those that are the results */
    int64_t *view_numbers;   /* offset, lengths and strides of each */
    Py_ssize_t result_count; /* of views that are the results; -1 if the results are the outputs themselves */
    Py_ssize_t view_count, view_number_count;
    KeptPanels *kept;
    Py_ssize_t kept_count;
    /* Bodies of loops that consist of small kernels: the loop as a function, or NULL */
    RepeatFunction repeat;
    PyObject *repeat_code;     /* the MachineCode in which it is */
    Py_ssize_t *carry_bytes;   /* of each carried value */
    char **constant_addresses; /* of all constants */
    /* Of programs instantiated from a ProgramTemplate. Everything that does not depend on shapes is the prototype's: */
    PyObject *template; /* NULL for others */
    void *block;        /* the memory of `instructions`, and of what follows */
    Number *values;     /* the inputs of the template's size code */
    OwnConstant *own;   /* constants that depend on shapes, which are not in `constants` */
    Py_ssize_t own_count;
    PyObject *own_hosts; /* list of the host functions that depend on shapes and were used, or NULL */
} Program;

extern PyTypeObject *Program_Type;
/* A program whose fields are all zero: a new reference. */
Program *ingot_program_new(void);
/* Reads views, a list of (slot, dtype, offset, shape, strides). */
int ingot_read_views(Program *self, PyObject *views);
void ingot_release_views(Program *self);
/* Some views as a tuple of ndarrays, given the owners of all slots: a new reference. */
PyObject *ingot_make_views(const Program *self, Py_ssize_t first, Py_ssize_t count, PyObject *owners);
/* The shapes of the results: a new reference. */
PyObject *ingot_result_shapes(const Program *self);
/* The description of the instructions, for profiles and errors: a new reference. */
PyObject *ingot_program_about(Program *self);
/* The same for an instantiated program, computed on demand. */
PyObject *ingot_template_about(Program *self);
/* The program of a ProgramTemplate for the values of its inputs: a new reference; NULL without an error if they violate the
 * conditions or are too large, as `outcome` tells. */
Program *ingot_template_make(PyObject *template, const Number *values, SizeOutcome *outcome);
PyObject *ingot_template_values(Program *self); /* a new list */
/* Makes the host function of an instruction, which is NULL because it depends on shapes. */
int ingot_template_host(Program *self, Instruction *instruction);
bool ingot_is_template(PyObject *object);
Py_ssize_t ingot_template_inputs(PyObject *template);
typedef void (*KernelFunction)(void *arguments, int64_t begin, int64_t end, int thread);
/* Runs a kernel from iteration `done` of its parallel loop on; returns up to where it ran. If that is not the end, it was
 * interrupted and an exception is set. */
int64_t ingot_run_kernel(const Instruction *instruction, char **arguments, int64_t done);

/* Runs a host step, whose results, ndarrays, are stored in their slots. */
int ingot_run_host(Program *program, Instruction *instruction, PyObject *owners, char **slots);
/* Computes in Python what a routine, a loop or a branch could not, or raises its error. */
int ingot_run_instead(Program *program, Instruction *instruction, PyObject *owners, char **slots);
/* Calls a check whose flag is set, which raises its error. */
int ingot_raise_check(Program *program, Instruction *instruction, PyObject *owners);

/* Whether `loop` may run it: all instructions are native, checks included, and no output is a view. */
bool ingot_program_can_loop(const Program *self);
extern PyTypeObject *Nested_Type;
/* How many arguments a NestedProgram takes: its operands, its results, and scratch memory. */
Py_ssize_t ingot_nested_arguments(const PyObject *nested);
/* Runs a NestedProgram without the GIL: 0, LOOP_INTERRUPTED with an exception, or LOOP_FAILED (loop.h). */
int ingot_run_nested(const PyObject *nested, char *const *arguments);

/* loop(inputs, first, second, carries, slices, length, reverse, has_flag, invariant) -> the number of steps, or negative if
 * a check failed */
PyObject *ingot_program_loop(PyObject *program, PyObject *arguments);

#endif
