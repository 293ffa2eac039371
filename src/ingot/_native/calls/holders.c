/* holders: which objects refer to arrays of a trace. Arrays are not tracked by the garbage collector, so gc.get_referrers
 * does not find what holds them: each object of the heap is traversed, which takes 0.1 s for millions of them. */
#include "native.h"

/* Nested containers that the garbage collector does not track are followed this deep. */
enum { MAX_DEPTH = 50 };

typedef struct {
    PyObject *holder, *array;
} Pair;

typedef struct {
    PyObject *recorder;
    PyObject *holder; /* the object that is being traversed */
    Pair *found;
    size_t count, capacity;
    int depth;
    bool failed; /* for want of memory */
} Search;

/* Called while an object is traversed, when nothing may run that could change it: no object is created here. */
static int remember(Search *search, PyObject *item) {
    if (search->count == search->capacity) {
        size_t capacity = search->capacity * 2 + 8;
        Pair *grown = PyMem_Realloc(search->found, capacity * sizeof *grown);
        if (grown == NULL)
            return -1;
        search->found = grown;
        search->capacity = capacity;
    }
    search->found[search->count++] = (Pair){Py_NewRef(search->holder), Py_NewRef(item)};
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

/* Looks for arrays in one object. Returns 1, which lets the traversal of the heap continue. */
static int visit_holder(PyObject *holder, void *given) {
    Search *search = given;
    traverseproc traverse = Py_TYPE(holder)->tp_traverse;
    search->holder = holder;
    if (traverse != NULL && !search->failed)
        search->failed = traverse(holder, visit, search) != 0;
    return 1;
}

static void visit_all(PyObject *objects, Search *search) {
#ifdef Py_GIL_DISABLED
    (void)objects; /* all that are tracked now: other threads stop meanwhile, or they would change what is traversed */
    PyUnstable_GC_VisitObjects(visit_holder, search);
#else
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(objects); i++)
        visit_holder(PyList_GET_ITEM(objects, i), search);
#endif
}

static PyObject *holders(PyObject *Py_UNUSED(module), PyObject *args) {
    PyObject *objects;
    Search search = {.count = 0};
    if (!PyArg_ParseTuple(args, "O!O:holders", &PyList_Type, &objects, &search.recorder))
        return NULL;
    visit_all(objects, &search);
    PyObject *pairs = search.failed ? PyErr_NoMemory() : PyList_New(0);
    for (size_t i = 0; i < search.count; i++) {
        Pair *found = &search.found[i];
        PyObject *pair = pairs == NULL ? NULL : PyTuple_Pack(2, found->holder, found->array);
        if (pairs != NULL && (pair == NULL || PyList_Append(pairs, pair) < 0))
            Py_CLEAR(pairs);
        Py_XDECREF(pair);
        Py_DECREF(found->holder);
        Py_DECREF(found->array);
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
