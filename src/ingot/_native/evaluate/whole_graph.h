/* Graphs that are evaluated as a whole, by the program that the compiler made of one like it (whole_graph.c). */
#ifndef INGOT_WHOLE_GRAPH_H
#define INGOT_WHOLE_GRAPH_H

#include "native.h"

/* Evaluates the nodes, which come inputs first, with one program if there is or should be one: 1 done, 0 declined, -1 error.
 * Nodes that something outside of the graph refers to get values too, as if each had been evaluated by itself. */
int evaluate_whole_graph(NodeList *order, Node **outputs, Py_ssize_t count, bool computes_pending, bool tracing);

/* For settings that programs depend on. */
void forget_graphs(void);

#endif
