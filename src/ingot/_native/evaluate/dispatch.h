/* What an op does to inputs of one layout, known from before (dispatch.c). */
#ifndef INGOT_DISPATCH_H
#define INGOT_DISPATCH_H

#include "native.h"

#define MAX_LAYOUT_WORDS 96

/* An op and how its inputs lie in memory. Everything is borrowed. */
typedef struct {
    uint64_t hash;
    int word_count;
    uint64_t words[MAX_LAYOUT_WORDS];
    PyObject *op;
    PyObject *const *values;
    Py_ssize_t count;
} LayoutKey;

/* False if it has none. Never fails. */
bool dispatch_key(LayoutKey *key, PyObject *op, PyObject *const *values, Py_ssize_t count);
/* The program that computes the op, or None if its own rule does: borrowed; NULL if that is not known. */
PyObject *dispatch_program(const LayoutKey *key);
void dispatch_keep_program(const LayoutKey *key, PyObject *program);
/* The first input as the op shows it, a new reference, if it is known how; NULL without an error if not. */
PyObject *dispatch_view(const LayoutKey *key);
/* Remembers how `result` shows the memory of the first input, if it does. */
void dispatch_keep_view(const LayoutKey *key, PyObject *result);

#endif
