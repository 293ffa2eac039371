/* Progress of non-blocking collectives: MPI moves their data only while something calls it, so native instructions and nodes
 * that run meanwhile ask MPI for each request that is in flight, by the address of MPI_Test.
 *
 * `graph/communication/` begins requests, lists them here, and takes one off the list before it waits for it: two threads
 * must not complete the same request. */
#include "communication/progress.h"

#include <pthread.h>
#include <stdatomic.h>

#define MAX_REQUESTS 64 /* of which progress is made; others wait for their turn */

typedef int (*Test)(void *request, int *is_done, void *status);

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Test test;
static void *requests[MAX_REQUESTS]; /* addresses of MPI's handles */
static int request_count;
static atomic_int in_flight; /* the same number, which is read without the lock */
static long long polls;      /* that found a request in flight */

void ingot_make_progress(void) {
    if (atomic_load_explicit(&in_flight, memory_order_relaxed) == 0 || pthread_mutex_trylock(&lock) != 0)
        return;
    int kept = 0;
    for (int i = 0; i < request_count; i++) {
        int is_done = 0;
        _Alignas(16) char status[256]; /* larger than any library's */
        int code = test(requests[i], &is_done, status);
        if (code == 0 && !is_done) /* errors are reported to the thread that waits for the request */
            requests[kept++] = requests[i];
    }
    request_count = kept;
    atomic_store_explicit(&in_flight, kept, memory_order_relaxed);
    polls++;
    pthread_mutex_unlock(&lock);
}

/* begin_progress(test, request): from now on progress is made with the request at an address */
static PyObject *begin_progress(PyObject *Py_UNUSED(module), PyObject *arguments) {
    unsigned long long function, request;
    if (!PyArg_ParseTuple(arguments, "KK:begin_progress", &function, &request))
        return NULL;
    pthread_mutex_lock(&lock);
    if (request_count < MAX_REQUESTS) {
        test = (Test)(uintptr_t)function;
        requests[request_count++] = (void *)(uintptr_t)request;
        atomic_store_explicit(&in_flight, request_count, memory_order_relaxed);
    }
    pthread_mutex_unlock(&lock);
    Py_RETURN_NONE;
}

/* end_progress(request): nothing but its waiter touches the request from now on */
static PyObject *end_progress(PyObject *Py_UNUSED(module), PyObject *address) {
    void *request = (void *)(uintptr_t)PyLong_AsUnsignedLongLong(address);
    if (PyErr_Occurred())
        return NULL;
    PyThreadState *state = PyEval_SaveThread(); /* another thread may be asking MPI */
    pthread_mutex_lock(&lock);
    int kept = 0;
    for (int i = 0; i < request_count; i++) {
        if (requests[i] != request)
            requests[kept++] = requests[i];
    }
    request_count = kept;
    atomic_store_explicit(&in_flight, kept, memory_order_relaxed);
    pthread_mutex_unlock(&lock);
    PyEval_RestoreThread(state);
    Py_RETURN_NONE;
}

static PyObject *progress_polls(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(ignored)) {
    return PyLong_FromLongLong(polls);
}

static PyMethodDef functions[] = {
    {"begin_progress", begin_progress, METH_VARARGS, "begin_progress(test, request): make progress with a request of MPI"},
    {"end_progress", end_progress, METH_O, "end_progress(request): no more, because it is waited for"},
    {"progress_polls", progress_polls, METH_NOARGS, "How often MPI was asked for progress while something was in flight."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_progress(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
