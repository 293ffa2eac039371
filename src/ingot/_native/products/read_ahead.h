/* Prefetching the matrices of the next product while a graph is evaluated node by node (read_ahead.c). */
#ifndef INGOT_READ_AHEAD_H
#define INGOT_READ_AHEAD_H

#include "native.h"

/* Called before the node at `position` of an order runs. `*next` is the position of the next node whose operands were
 * announced to the pool, 0 at first. */
void read_ahead(const NodeList *order, Py_ssize_t position, Py_ssize_t *next);

#endif
