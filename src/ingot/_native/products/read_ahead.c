/* Prefetching the matrices of the next product while a graph is evaluated node by node.
 *
 * A decoding step reads each matrix once, from memory. Its other ops are too small for a second thread, and while they and
 * the evaluation itself take their time, memory would be idle. So before a product runs, the pool learns where the operands
 * of the next one are, and threads without work fetch their parts of these (ingot_read_ahead). */
#include "products/read_ahead.h"

#include "numpy_api.h"
#include "threads/pool.h"
#include "tuning.h"

static bool is_of(PyObject *op, PyObject *type) {
    return type != NULL && PyObject_TypeCheck(op, (PyTypeObject *)type);
}

/* Whether a node is a product of few rows, for which reading is the limit. */
static bool is_bound_by_memory(Node *node) {
    if (node->op == NULL || !is_of(node->op, callbacks.alone_type))
        return false;
    long long rows = 1;
    for (Py_ssize_t axis = 0; axis < PyTuple_GET_SIZE(node->shape) - 1 && rows <= MAX_READ_AHEAD_ROWS; axis++)
        rows *= PyLong_AsLongLong(PyTuple_GET_ITEM(node->shape, axis));
    return rows <= MAX_READ_AHEAD_ROWS;
}

/* The memory of a value that was computed before, or of what it views; NULL if there is none, or if it has gaps. */
static PyObject *known_memory(Node *node) {
    while (node->data == NULL && node->op != NULL && PyTuple_GET_SIZE(node->inputs) == 1 &&
           is_of(node->op, callbacks.view_type))
        node = (Node *)PyTuple_GET_ITEM(node->inputs, 0);
    if (node->data == NULL || !is_ndarray(node->data))
        return NULL;
    PyArrayObject *array = as_ndarray(node->data);
    return PyArray_CHKFLAGS(array, NPY_ARRAY_C_CONTIGUOUS) || PyArray_CHKFLAGS(array, NPY_ARRAY_F_CONTIGUOUS) ? node->data
                                                                                                              : NULL;
}

static void announce(Node *node) {
    ReadAhead areas[MAX_READ_AHEAD];
    int count = 0;
    for (Py_ssize_t i = 0; i < PyTuple_GET_SIZE(node->inputs) && count < MAX_READ_AHEAD; i++) {
        PyObject *memory = known_memory((Node *)PyTuple_GET_ITEM(node->inputs, i));
        if (memory != NULL && PyArray_NBYTES(as_ndarray(memory)) >= MIN_READ_AHEAD_BYTES)
            areas[count++] = (ReadAhead){ndarray_data(memory), PyArray_NBYTES(as_ndarray(memory))};
    }
    if (count > 0)
        ingot_read_ahead(areas, count);
}

void read_ahead(const NodeList *order, Py_ssize_t position, Py_ssize_t *next) {
    if (position < *next || callbacks.alone_type == NULL || ingot_num_threads() == 1)
        return;
    Py_ssize_t found = position + 1; /* the node at `position` runs now, and was announced unless it is the first */
    while (found < order->count && !is_bound_by_memory(order->items[found]))
        found++;
    *next = found < order->count ? found : PY_SSIZE_T_MAX;
    if (found < order->count)
        announce(order->items[found]);
}
