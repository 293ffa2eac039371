/* The cached program or view of an op for inputs of a known layout (dispatch.c). */
#ifndef INGOT_DISPATCH_H
#define INGOT_DISPATCH_H

#include "objects/two_way_cache.h"

#define MAX_LAYOUT_WORDS 96

/* An op and the layout of its inputs. All references are borrowed. */
typedef struct {
    WordKey key;
    uint64_t words[MAX_LAYOUT_WORDS];
    PyObject *op;
    PyObject *const *values;
    Py_ssize_t count;
} LayoutKey;

/* False if the inputs cannot be a key. Never fails. */
bool dispatch_key(LayoutKey *key, PyObject *op, PyObject *const *values, Py_ssize_t count);
/* The program of the op, or None if its `evaluate` rule computes it: borrowed; NULL if it is not in the cache. */
PyObject *dispatch_program(const LayoutKey *key);
void dispatch_keep_program(const LayoutKey *key, PyObject *program);
/* Counts an evaluation by the op's `evaluate` rule; whether there were so many that a program pays off. */
bool dispatch_recurs(const LayoutKey *key);
/* The op's view of its first input, a new reference, if it is in the cache; NULL without an error if it is not. */
PyObject *dispatch_view(const LayoutKey *key);
/* Caches how `result` views the memory of the first input, if it does. */
void dispatch_keep_view(const LayoutKey *key, PyObject *result);

#endif
