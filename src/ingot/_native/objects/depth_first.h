/* Topological order of graphs by an iterative depth-first traversal: inputs before users, each node once. Inline, so
 * that the callbacks below cost nothing. */
#ifndef INGOT_DEPTH_FIRST_H
#define INGOT_DEPTH_FIRST_H
#include "native.h"

/* The callbacks of a traversal. They must not run Python code, because another thread could then change the marks. */
typedef struct {
    bool (*skips)(Node *node, const void *context);    /* whether to ignore the node and its inputs */
    bool (*descends)(Node *node, const void *context); /* whether to visit its inputs; only for nodes that have some */
    bool (*keeps)(Node *node, const void *context);    /* called after its inputs: whether to keep the node */
} Traversal;

/* Appends nodes to `order`, which owns references to them. Visited nodes get a new mark, unless `keeps` sets
 * another. */
static inline int depth_first(Node **outputs, Py_ssize_t count, Traversal asked, const void *context, NodeList *order) {
    uint64_t seen = next_mark();
    NodeList stack = {0};
    int status = 0;
    for (Py_ssize_t i = 0; i < count && status == 0; i++) {
        if (outputs[i]->mark == seen || asked.skips(outputs[i], context))
            continue;
        status = node_list_push(&stack, outputs[i]);
        while (status == 0 && stack.count > 0) {
            /* The low bit of an entry is set once the node's inputs are on the stack above it. */
            uintptr_t top = (uintptr_t)stack.items[stack.count - 1];
            Node *node = (Node *)(top & ~(uintptr_t)1);
            if (top & 1) {
                stack.count--;
                if (asked.keeps(node, context))
                    status = node_list_push(order, (Node *)Py_NewRef(node));
                continue;
            }
            if (node->mark == seen || asked.skips(node, context)) {
                stack.count--;
                continue;
            }
            node->mark = seen;
            stack.items[stack.count - 1] = (Node *)(top | 1);
            if (!asked.descends(node, context))
                continue;
            for (Py_ssize_t k = PyTuple_GET_SIZE(node->inputs) - 1; k >= 0 && status == 0; k--) {
                Node *input = (Node *)PyTuple_GET_ITEM(node->inputs, k);
                if (input->mark != seen && !asked.skips(input, context))
                    status = node_list_push(&stack, input);
            }
        }
    }
    PyMem_Free(stack.items);
    return status;
}

#endif
