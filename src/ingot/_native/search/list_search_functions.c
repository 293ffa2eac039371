/* Python binding of list_search.c, called by search/inverted/search.py. */
#include "native.h"

#include "memory/buffer.h"
#include "search/candidates.h"
#include "search/list_search.h"

enum { MATRICES = 10 };

/* A matrix argument: the object, and the element type it must have. */
typedef struct {
    PyObject *object;
    Py_ssize_t itemsize; /* 0 for any */
    int flags;
    Py_buffer view;
} Matrix;

static bool take_matrices(Matrix *matrices, int *taken) {
    for (*taken = 0; *taken < MATRICES;) {
        Matrix *matrix = &matrices[*taken];
        if (PyObject_GetBuffer(matrix->object, &matrix->view, PyBUF_C_CONTIGUOUS | matrix->flags) < 0)
            return false;
        ++*taken;
        if (matrix->view.ndim != 2 || (matrix->itemsize != 0 && matrix->view.itemsize != matrix->itemsize)) {
            PyErr_Format(PyExc_ValueError, "a search in lists takes matrices; number %d is none, or of other elements.",
                         *taken);
            return false;
        }
    }
    return true;
}

static Py_ssize_t rows_of(const Matrix *matrix) {
    return matrix->view.shape[0];
}

static Py_ssize_t columns_of(const Matrix *matrix) {
    return matrix->view.shape[1];
}

/* Whether all rows of codes that the search can read are inside the matrix. */
static bool lists_fit(const ingot_list_search *search, int64_t row_count) {
    if (search->limits[0] < 0 || search->limits[search->list_count] > row_count)
        return false;
    for (int64_t list = 0; list < search->list_count; list++) {
        if (search->limits[list] > search->limits[list + 1])
            return false;
    }
    for (int64_t i = 0; i < search->query_count * search->probe_count; i++) {
        if (search->probes[i] >= search->list_count)
            return false;
    }
    return true;
}

/* Whether the codes have the length and the tables that their kind needs. */
static bool codes_fit(const ingot_codes *codes, Py_ssize_t itemsize, const Matrix *origins, const Matrix *steps,
                      const Matrix *codebooks) {
    int64_t d = codes->d, bytes = codes->code_bytes, entries = codes->entries;
    bool scaled = columns_of(origins) == d && columns_of(steps) == d && rows_of(origins) == 1 && rows_of(steps) == 1;
    switch (codes->kind) {
    case CODES_FLOAT32:
        return itemsize == 4 && bytes == 4 * d;
    case CODES_8_BITS:
        return itemsize == 1 && bytes == d && scaled;
    case CODES_4_BITS:
        return itemsize == 1 && bytes == (d + 1) / 2 && scaled;
    case CODES_FLOAT16:
        return itemsize == 2 && bytes == 2 * d && scaled;
    case CODES_PARTS:
        return itemsize == 1 && bytes > 0 && d % bytes == 0 && rows_of(codebooks) == d && entries > 0 && entries <= 256 &&
               (entries & (entries - 1)) == 0;
    default:
        return false;
    }
}

/* The matrix arguments of `nearest_in_lists`. */
enum { QUERIES, PROBES, CODES, LIMITS, ORIGINS, STEPS, CODEBOOKS, CENTROIDS, DISTANCES, POSITIONS };

/* Whether there is one centroid per list, if there are any. */
static bool centroids_fit(const ingot_list_search *search, const Matrix *centroids) {
    return search->centroids == NULL || (search->codes.kind != CODES_FLOAT32 && rows_of(centroids) == search->list_count &&
                                         columns_of(centroids) == search->codes.d);
}

/* Whether the matrices have the shapes that a search for the k nearest needs. */
static bool matrices_fit(const ingot_list_search *search, const Matrix *m, int64_t k) {
    int64_t queries = search->query_count;
    return search->codes.d > 0 && search->list_count > 0 && rows_of(&m[LIMITS]) == 1 && k > 0 &&
           columns_of(&m[POSITIONS]) == k && rows_of(&m[PROBES]) == queries && rows_of(&m[DISTANCES]) == queries &&
           rows_of(&m[POSITIONS]) == queries && centroids_fit(search, &m[CENTROIDS]) &&
           codes_fit(&search->codes, m[CODES].view.itemsize, &m[ORIGINS], &m[STEPS], &m[CODEBOOKS]) &&
           lists_fit(search, rows_of(&m[CODES]));
}

static ingot_list_search search_of(const Matrix *m, ingot_codes_kind kind, ingot_metric metric) {
    return (ingot_list_search){
        .codes =
            {
                .metric = metric,
                .kind = kind,
                .d = columns_of(&m[QUERIES]),
                .code_bytes = columns_of(&m[CODES]) * m[CODES].view.itemsize,
                .origins = m[ORIGINS].view.buf,
                .steps = m[STEPS].view.buf,
                .codebooks = m[CODEBOOKS].view.buf,
                .entries = columns_of(&m[CODEBOOKS]),
            },
        .queries = m[QUERIES].view.buf,
        .query_count = rows_of(&m[QUERIES]),
        .probes = m[PROBES].view.buf,
        .probe_count = columns_of(&m[PROBES]),
        .rows = m[CODES].view.buf,
        .limits = m[LIMITS].view.buf,
        .list_count = columns_of(&m[LIMITS]) - 1,
        .centroids = rows_of(&m[CENTROIDS]) == 0 ? NULL : m[CENTROIDS].view.buf,
    };
}

/* Fills the matrices of the results; sets an exception if the arguments do not fit each other or memory is short. */
static void run_search(const Matrix *m, ingot_codes_kind kind, ingot_metric metric) {
    int64_t k = columns_of(&m[DISTANCES]);
    ingot_list_search search = search_of(m, kind, metric);
    if ((metric != METRIC_L2 && metric != METRIC_INNER_PRODUCT) || !matrices_fit(&search, m, k)) {
        PyErr_SetString(PyExc_ValueError, "a search in lists takes queries, codes, lists and results that fit each other.");
        return;
    }
    bool done;
    Py_BEGIN_ALLOW_THREADS
    done = ingot_nearest_in_lists(&search, k, m[DISTANCES].view.buf, m[POSITIONS].view.buf);
    Py_END_ALLOW_THREADS
    if (!done && !PyErr_Occurred())
        ingot_no_memory((size_t)k * sizeof(ingot_candidate));
}

/* nearest_in_lists(queries, probes, codes, limits, kind, origins, steps, codebooks, centroids, metric, distances,
 *                  positions) */
static PyObject *nearest_in_lists(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Matrix m[MATRICES] = {
        [QUERIES] = {.itemsize = 4},
        [PROBES] = {.itemsize = 8},
        [CODES] = {.itemsize = 0},
        [LIMITS] = {.itemsize = 8},
        [ORIGINS] = {.itemsize = 4},
        [STEPS] = {.itemsize = 4},
        [CODEBOOKS] = {.itemsize = 4},
        [CENTROIDS] = {.itemsize = 4},
        [DISTANCES] = {.itemsize = 4, .flags = PyBUF_WRITABLE},
        [POSITIONS] = {.itemsize = 8, .flags = PyBUF_WRITABLE},
    };
    int kind, metric, taken = 0;
    if (!PyArg_ParseTuple(arguments, "OOOOiOOOOiOO:nearest_in_lists", &m[QUERIES].object, &m[PROBES].object, &m[CODES].object,
                          &m[LIMITS].object, &kind, &m[ORIGINS].object, &m[STEPS].object, &m[CODEBOOKS].object,
                          &m[CENTROIDS].object, &metric, &m[DISTANCES].object, &m[POSITIONS].object))
        return NULL;
    if (take_matrices(m, &taken))
        run_search(m, (ingot_codes_kind)kind, (ingot_metric)metric);
    while (taken > 0)
        PyBuffer_Release(&m[--taken].view);
    if (PyErr_Occurred())
        return NULL;
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"nearest_in_lists", nearest_in_lists, METH_VARARGS,
     "nearest_in_lists(queries, probes, codes, limits, kind, origins, steps, codebooks, centroids, metric, distances, "
     "positions): fills the last two"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_list_search(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
