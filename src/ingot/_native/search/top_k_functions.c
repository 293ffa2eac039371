/* Python bindings of top_k.c, called by search/nearest_evaluation.py. */
#include "native.h"

#include <stdlib.h>

#include "memory/buffer.h"
#include "search/top_k.h"

/* The matrix arguments, as buffers. */
typedef struct {
    Py_buffer views[4];
    int count;
} Matrices;

static void release_matrices(Matrices *self) {
    while (self->count > 0)
        PyBuffer_Release(&self->views[--self->count]);
}

static Py_buffer *take_matrix(Matrices *self, PyObject *object, Py_ssize_t itemsize, int flags) {
    Py_buffer *view = &self->views[self->count];
    if (PyObject_GetBuffer(object, view, PyBUF_C_CONTIGUOUS | flags) < 0)
        return NULL;
    self->count++;
    if (view->ndim == 2 && view->itemsize == itemsize)
        return view;
    PyErr_Format(PyExc_ValueError, "a search takes matrices with elements of %zd bytes.", itemsize);
    return NULL;
}

static bool take_search(Matrices *matrices, PyObject *queries, PyObject *rows, long long row_count, int metric,
                        ingot_search *search) {
    Py_buffer *x = take_matrix(matrices, queries, sizeof(float), PyBUF_SIMPLE);
    Py_buffer *y = x == NULL ? NULL : take_matrix(matrices, rows, sizeof(float), PyBUF_SIMPLE);
    if (y == NULL)
        return false;
    if (x->shape[1] != y->shape[1] || row_count < 0 || row_count > y->shape[0] || metric < METRIC_L2 ||
        metric > METRIC_COSINE || x->shape[1] > INT32_MAX) {
        PyErr_SetString(PyExc_ValueError, "a search takes queries and rows of one length, and no more rows than there are.");
        return false;
    }
    *search = (ingot_search){
        .metric = (ingot_metric)metric,
        .queries = x->buf,
        .rows = y->buf,
        .query_count = x->shape[0],
        .row_count = row_count,
        .d = x->shape[1],
    };
    return true;
}

/* nearest_rows(queries, rows, row_count, metric, distances, positions) */
static PyObject *nearest_rows(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *queries, *rows, *distances, *positions;
    long long row_count;
    int metric;
    if (!PyArg_ParseTuple(arguments, "OOLiOO:nearest_rows", &queries, &rows, &row_count, &metric, &distances, &positions))
        return NULL;
    Matrices matrices = {.count = 0};
    ingot_search search;
    Py_buffer *d = NULL, *p = NULL;
    if (take_search(&matrices, queries, rows, row_count, metric, &search) &&
        (d = take_matrix(&matrices, distances, sizeof(float), PyBUF_WRITABLE)) != NULL)
        p = take_matrix(&matrices, positions, sizeof(int64_t), PyBUF_WRITABLE);
    if (p != NULL && (d->shape[0] != search.query_count || p->shape[0] != search.query_count || d->shape[1] != p->shape[1])) {
        PyErr_SetString(PyExc_ValueError, "a search writes as many rows as there are queries.");
        p = NULL;
    }
    bool done = false;
    if (p != NULL && d->shape[1] > 0) {
        Py_BEGIN_ALLOW_THREADS
        done = ingot_nearest(&search, d->shape[1], d->buf, p->buf);
        Py_END_ALLOW_THREADS
        if (!done && !PyErr_Occurred())
            ingot_no_memory((size_t)d->shape[1] * sizeof(ingot_candidate));
    }
    release_matrices(&matrices);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

/* Concatenates the results into three bytearrays: limits, distances and positions. */
static PyObject *packed(const ingot_search *search, ingot_candidate **found, const int64_t *counts) {
    Py_ssize_t total = 0;
    for (int64_t q = 0; q < search->query_count; q++)
        total += counts[q];
    PyObject *limits = PyByteArray_FromStringAndSize(NULL, (search->query_count + 1) * (Py_ssize_t)sizeof(int64_t));
    PyObject *distances = PyByteArray_FromStringAndSize(NULL, total * (Py_ssize_t)sizeof(float));
    PyObject *positions = PyByteArray_FromStringAndSize(NULL, total * (Py_ssize_t)sizeof(int64_t));
    PyObject *result = NULL;
    if (limits != NULL && distances != NULL && positions != NULL) {
        bool negated = search->metric == METRIC_INNER_PRODUCT || search->metric == METRIC_COSINE;
        int64_t *limit = (int64_t *)PyByteArray_AS_STRING(limits), *position = (int64_t *)PyByteArray_AS_STRING(positions);
        float *distance = (float *)PyByteArray_AS_STRING(distances);
        *limit = 0;
        for (int64_t q = 0; q < search->query_count; q++, limit++) {
            for (int64_t i = 0; i < counts[q]; i++) {
                *distance++ = negated ? 0 - found[q][i].key : found[q][i].key;
                *position++ = found[q][i].row;
            }
            limit[1] = limit[0] + counts[q];
        }
        result = PyTuple_Pack(3, limits, distances, positions);
    }
    Py_XDECREF(limits);
    Py_XDECREF(distances);
    Py_XDECREF(positions);
    return result;
}

/* rows_within(queries, rows, row_count, metric, radius) -> (limits, distances, positions) */
static PyObject *rows_within(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *queries, *rows, *result = NULL;
    long long row_count;
    int metric;
    float radius;
    if (!PyArg_ParseTuple(arguments, "OOLif:rows_within", &queries, &rows, &row_count, &metric, &radius))
        return NULL;
    Matrices matrices = {.count = 0};
    ingot_search search;
    if (!take_search(&matrices, queries, rows, row_count, metric, &search)) {
        release_matrices(&matrices);
        return NULL;
    }
    size_t count = (size_t)search.query_count;
    ingot_candidate **found = calloc(count + 1, sizeof *found);
    int64_t *counts = calloc(count + 1, sizeof *counts);
    bool done = false;
    if (found != NULL && counts != NULL) {
        Py_BEGIN_ALLOW_THREADS
        done = ingot_within(&search, radius, found, counts);
        Py_END_ALLOW_THREADS
    }
    result = done ? packed(&search, found, counts) : PyErr_Occurred() ? NULL : PyErr_NoMemory();
    for (size_t q = 0; found != NULL && q < count; q++)
        free(found[q]);
    free(found);
    free(counts);
    release_matrices(&matrices);
    return result;
}

static PyMethodDef functions[] = {
    {"nearest_rows", nearest_rows, METH_VARARGS,
     "nearest_rows(queries, rows, row_count, metric, distances, positions): fills the last two"},
    {"rows_within", rows_within, METH_VARARGS,
     "rows_within(queries, rows, row_count, metric, radius) -> limits, distances and positions as bytes"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_top_k(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
