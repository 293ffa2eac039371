/* Growable lists of nodes, for graph traversals. */
#include "native.h"

int node_list_push(NodeList *list, Node *node) {
    if (list->count == list->capacity) {
        Py_ssize_t capacity = list->capacity ? 2 * list->capacity : 64;
        Node **items = PyMem_Realloc(list->items, (size_t)capacity * sizeof *items);
        if (items == NULL) {
            PyErr_NoMemory();
            return -1;
        }
        list->items = items;
        list->capacity = capacity;
    }
    list->items[list->count++] = node;
    return 0;
}

int node_list_collect(PyObject *sequence, NodeList *list) {
    PyObject *given = PySequence_Fast(sequence, "expected a sequence of arrays.");
    PyObject *fast = given == NULL ? NULL : ingot_steady_sequence(given);
    Py_XDECREF(given);
    if (fast == NULL)
        return -1;
    int status = 0;
    for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(fast) && status == 0; i++) {
        Node *node = as_node(PySequence_Fast_GET_ITEM(fast, i));
        if (node == NULL || node_list_push(list, node) < 0)
            status = -1;
        else
            Py_INCREF(node);
    }
    Py_DECREF(fast);
    return status;
}

void node_list_release(NodeList *list) {
    for (Py_ssize_t i = 0; i < list->count; i++)
        Py_DECREF(list->items[i]);
    PyMem_Free(list->items);
}

PyObject *node_list_as_list(const NodeList *list) {
    PyObject *made = PyList_New(list->count);
    for (Py_ssize_t i = 0; made != NULL && i < list->count; i++)
        PyList_SET_ITEM(made, i, Py_NewRef((PyObject *)list->items[i]));
    return made;
}
