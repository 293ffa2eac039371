/* Python bindings of the thread pool. runtime/threads.py exposes them to users. */
#include "native.h"

#include <stdatomic.h>
#include <stdlib.h>

#include "threads/machine.h"
#include "threads/pool.h"

static PyObject *get_num_threads(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    return PyLong_FromLong(ingot_wanted_threads());
}

static PyObject *set_num_threads(PyObject *Py_UNUSED(module), PyObject *number) {
    Py_ssize_t threads = PyNumber_AsSsize_t(number, NULL);
    if (threads == -1 && PyErr_Occurred()) {
        return NULL;
    }
    if (threads < 1 || threads > INGOT_MAXIMUM_THREADS) {
        PyErr_Format(PyExc_ValueError, "[set_num_threads] the number of threads must be from 1 to %d, got %S.",
                     INGOT_MAXIMUM_THREADS, number);
        return NULL;
    }
    int old = ingot_wanted_threads();
    ingot_set_num_threads((int)threads);
    return PyLong_FromLong(old);
}

/* ---- for tests: how a loop was divided ---- */

typedef struct {
    int64_t begin, end;
    int thread;
} Chunk;

typedef struct {
    Chunk *chunks;
    int64_t room;
    atomic_llong used;
    bool nested;
} Record;

typedef struct {
    atomic_llong chunks, covered;
} Inner;

static void count_piece(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    Inner *inner = context;
    atomic_fetch_add(&inner->chunks, 1);
    atomic_fetch_add(&inner->covered, end - begin);
}

static void record_piece(void *context, int64_t begin, int64_t end, int thread) {
    Record *record = context;
    if (record->nested) {
        Inner inner;
        atomic_init(&inner.chunks, 0);
        atomic_init(&inner.covered, 0);
        ingot_parallel_for(count_piece, &inner, end - begin, 1);
        end = begin + atomic_load(&inner.covered);
        thread = (int)atomic_load(&inner.chunks);
    }
    for (volatile int i = 0; i < 1000; i++) {
        /* About a microsecond, in which another thread can claim the next chunk. */
    }
    int64_t index = atomic_fetch_add(&record->used, 1);
    if (index < record->room) {
        record->chunks[index] = (Chunk){begin, end, thread};
    }
}

static PyObject *parallel_for_probe(PyObject *Py_UNUSED(module), PyObject *arguments) {
    long long count, grain;
    int nested = 0;
    if (!PyArg_ParseTuple(arguments, "LL|p:parallel_for_probe", &count, &grain, &nested)) {
        return NULL;
    }
    Record record = {.room = 8 * INGOT_MAXIMUM_THREADS, .nested = nested};
    atomic_init(&record.used, 0);
    record.chunks = malloc((size_t)record.room * sizeof(Chunk));
    if (record.chunks == NULL) {
        return PyErr_NoMemory();
    }
    Py_BEGIN_ALLOW_THREADS
    ingot_parallel_for(record_piece, &record, count, grain);
    Py_END_ALLOW_THREADS
    PyObject *result = PyList_New(0);
    for (int64_t i = 0; result != NULL && i < atomic_load(&record.used); i++) {
        Chunk *chunk = &record.chunks[i];
        PyObject *entry = Py_BuildValue("LLi", (long long)chunk->begin, (long long)chunk->end, chunk->thread);
        if (entry == NULL || PyList_Append(result, entry) < 0) {
            Py_CLEAR(result);
        }
        Py_XDECREF(entry);
    }
    free(record.chunks);
    return result;
}

static PyMethodDef functions[] = {
    {"get_num_threads", get_num_threads, METH_NOARGS, "get_num_threads(): how many threads a loop is spread over"},
    {"set_num_threads", set_num_threads, METH_O, "set_num_threads(threads): from the next loop on; returns the old number"},
    {"parallel_for_probe", parallel_for_probe, METH_VARARGS,
     "parallel_for_probe(count, grain, nested=False): the (begin, end, thread) of each chunk of a loop, for tests; with "
     "nested, a loop is run in each chunk and (begin, begin + what it covered, its number of chunks) returned"},
    {NULL, NULL, 0, NULL},
};

/* Warns about an environment variable with an unusable number instead of silently ignoring it. */
static int warn_of_environment(const char *name, long least, long most) {
    long number;
    if (ingot_environment_number(name, least, most, &number) >= 0) {
        return 0;
    }
    return PyErr_WarnFormat(PyExc_RuntimeWarning, 1, "%s must be a whole number from %ld to %ld, got '%s': ignored.", name,
                            least, most, getenv(name));
}

int ingot_add_pool(PyObject *module) {
    if (warn_of_environment("INGOT_NUM_THREADS", 1, INGOT_MAXIMUM_THREADS) < 0 ||
        warn_of_environment("INGOT_SPIN_MICROSECONDS", 0, 1000000) < 0) {
        return -1;
    }
    PyObject *address = PyLong_FromVoidPtr((void *)(uintptr_t)&ingot_parallel_for);
    int added = address == NULL ? -1 : PyModule_AddObjectRef(module, "parallel_for_address", address);
    Py_XDECREF(address);
    if (added < 0) {
        return -1;
    }
    /* Fails only if the table of exit functions is full; the workers then end with the process. */
    (void)Py_AtExit(ingot_stop_pool);
    return PyModule_AddFunctions(module, functions);
}
