/* Small collectives without Python: headers and data in one exchange (mailbox.c). */
#ifndef INGOT_MAILBOX_H
#define INGOT_MAILBOX_H

#include "native.h"

bool ingot_is_small_reduction(PyObject *object);
/* Reduces a small array over the ranks of a group: a new ndarray, NULL on error. */
PyObject *ingot_reduce_small(PyObject *reduction, PyObject *array);

#endif
