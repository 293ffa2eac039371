/* Code that computes numbers from the lengths of arrays, and checks conditions on them. */
#ifndef INGOT_SIZE_CODE_H
#define INGOT_SIZE_CODE_H
#include "native.h"

#define FAST_REGISTERS 64 /* that fit on the caller's stack */

typedef union {
    int64_t i;
    double f;
} Number;

typedef enum {
    SIZES_FIT,
    SIZES_BREAK_A_CONDITION, /* also: a division by zero */
    SIZES_ARE_TOO_LARGE,     /* for int64, or for exact conversion to float: Python must compute them */
} SizeOutcome;

extern PyTypeObject *SizeCode_Type;

Py_ssize_t size_code_inputs(PyObject *code);
Py_ssize_t size_code_registers(PyObject *code);
/* Computes all registers, given those of the inputs. Needs no GIL, and runs no Python. */
SizeOutcome size_code_run(PyObject *code, Number *registers);
/* Stores Python numbers into the registers of the inputs; SIZES_BREAK_A_CONDITION if one is a float where the code expects
 * an int, or vice versa. Anything but numbers is an error, which is then set. */
SizeOutcome size_code_read(PyObject *code, PyObject *values, Number *registers);
/* None for sizes that do not fit, OverflowError for those that are too large. */
PyObject *size_code_refusal(SizeOutcome outcome);
bool size_code_is_float(PyObject *code, Py_ssize_t index);
/* The first registers as a new list of Python's numbers. */
PyObject *size_code_numbers(PyObject *code, const Number *registers, Py_ssize_t count);

#endif
