/* Evaluation of a whole graph by one compiled program (whole_graph.c). */
#ifndef INGOT_WHOLE_GRAPH_H
#define INGOT_WHOLE_GRAPH_H

#include "native.h"

/* Evaluates the nodes, which are in topological order, with one program if there is or should be one: 1 done, 0 declined,
 * -1 error. Nodes that are referenced from outside the graph get values too, as if each had been evaluated by itself. */
int evaluate_whole_graph(NodeList *order, Node **outputs, Py_ssize_t count, bool computes_pending, bool tracing);

/* Empties the cache, because a setting that programs depend on has changed. */
void forget_graphs(void);

#endif
