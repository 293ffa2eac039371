/* The operands of an op while a node is evaluated (operands.c). */
#ifndef INGOT_OPERANDS_H
#define INGOT_OPERANDS_H

#include "native.h"

#define MAX_FAST_INPUTS 8

/* The operands of an op, owned by this call. */
typedef struct {
    PyObject *op, *inputs;
    Py_ssize_t count;
    PyObject **values; /* the op itself, then ndarrays, in the calling convention of methods */
    bool *donated;     /* which inputs have no other owner */
    bool any_donated;
    PyObject *fast_values[MAX_FAST_INPUTS + 1];
    bool fast_donated[MAX_FAST_INPUTS];
} Call;

/* Takes references to the op, the inputs and their values; -1 with an error. */
int begin_call(Call *call, Node *node, bool may_donate);
void end_call(Call *call);
/* Whether what `begin_call` found of donated inputs still holds after other threads may have run. */
bool are_still_sole(const Node *node, const Call *call);

#endif
