/* holders: which objects refer to arrays of a trace. Arrays are not tracked by the garbage collector, so gc.get_referrers
 * does not find what holds them: each object of the heap is traversed, which takes 0.1 s for millions of them. */
#include "native.h"

/* Nested containers that the garbage collector does not track are followed this deep. */
enum { MAX_DEPTH = 50 };

typedef struct {
    PyObject *recorder;
    PyObject **found; /* arrays that the current object refers to */
    size_t count, capacity;
    int depth;
} Search;

/* Called while an object is traversed, when nothing may run that could change it: no object is created here. */
static int remember(Search *search, PyObject *item) {
    if (search->count == search->capacity) {
        size_t capacity = search->capacity * 2 + 8;
        PyObject **grown = PyMem_Realloc(search->found, capacity * sizeof *grown);
        if (grown == NULL)
            return -1;
        search->found = grown;
        search->capacity = capacity;
    }
    search->found[search->count++] = Py_NewRef(item);
    return 0;
}

static int visit(PyObject *item, void *given) {
    Search *search = given;
    if (is_array(item)) {
        Node *node = ((Array *)item)->node;
        return node != NULL && node->trace == search->recorder ? remember(search, item) : 0;
    }
    bool is_plain_container = PyDict_Check(item) || PyTuple_Check(item);
    if (!is_plain_container || search->depth == MAX_DEPTH || PyObject_GC_IsTracked(item))
        return 0;
    search->depth++;
    int failed = Py_TYPE(item)->tp_traverse(item, visit, search);
    search->depth--;
    return failed;
}

/* Appends (holder, array) for each array that was found in the holder, and forgets them. */
static int append_found(Search *search, PyObject *holder, PyObject *pairs) {
    int failed = 0;
    for (size_t i = 0; i < search->count; i++) {
        PyObject *pair = failed ? NULL : PyTuple_Pack(2, holder, search->found[i]);
        failed = pair == NULL || PyList_Append(pairs, pair) < 0;
        Py_XDECREF(pair);
        Py_DECREF(search->found[i]);
    }
    search->count = 0;
    return failed;
}

static PyObject *holders(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *objects;
    Search search = {NULL, NULL, 0, 0, 0};
    if (!PyArg_ParseTuple(args, "O!O:holders", &PyList_Type, &objects, &search.recorder))
        return NULL;
    PyObject *pairs = PyList_New(0);
    for (Py_ssize_t i = 0; pairs != NULL && i < PyList_GET_SIZE(objects); i++) {
        PyObject *holder = PyList_GET_ITEM(objects, i);
        traverseproc traverse = Py_TYPE(holder)->tp_traverse;
        if (traverse == NULL)
            continue;
        int failed = traverse(holder, visit, &search);
        if (failed)
            PyErr_NoMemory();
        if (append_found(&search, holder, pairs) || failed)
            Py_CLEAR(pairs);
    }
    PyMem_Free(search.found);
    return pairs;
}

static PyMethodDef functions[] = {
    {"holders", holders, METH_VARARGS,
     "holders(objects, recorder) -> those that refer to arrays of its trace, with the arrays"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_holders(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
