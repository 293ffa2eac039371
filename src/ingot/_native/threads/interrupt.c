/* Polling for signals between the blocks of long computations. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "threads/interrupt.h"
#include "tuning.h"

#include <pthread.h>
#include <stdatomic.h>

#ifdef CLOCK_MONOTONIC_COARSE
#define QUICK_CLOCK CLOCK_MONOTONIC_COARSE /* precise to a few milliseconds, and five times faster to read */
#else
#define QUICK_CLOCK CLOCK_MONOTONIC
#endif

static atomic_ulong main_thread; /* Python's thread identifier; 0: not known yet */
static atomic_bool stopping;     /* the interpreter is shutting down, so background work must stop */
static _Thread_local int64_t next_poll;
static _Thread_local bool in_background;

void ingot_start_polling(void) {
    next_poll = ingot_read_clock(QUICK_CLOCK) + POLL_NANOSECONDS;
}

bool ingot_set_background(bool background) {
    bool before = in_background;
    in_background = background;
    return before;
}

bool ingot_should_stop(void) {
    int64_t now = ingot_read_clock(QUICK_CLOCK);
    if (now < next_poll)
        return false;
    next_poll = now + POLL_NANOSECONDS;
    bool ends = in_background && atomic_load_explicit(&stopping, memory_order_relaxed);
    unsigned long main = atomic_load_explicit(&main_thread, memory_order_relaxed);
    if (!ends && main != 0 && main != PyThread_get_thread_ident())
        return false; /* signal handlers run only in the main thread */
    PyGILState_STATE state = PyGILState_Ensure();
    bool stop = PyErr_CheckSignals() < 0;
    if (!stop && ends) {
        PyErr_SetString(PyExc_RuntimeError, "[async_eval] the evaluation was ended because Python exits.");
        stop = true;
    }
    PyGILState_Release(state);
    return stop;
}

int64_t ingot_interruptible_for(ingot_loop_body body, void *context, int64_t begin, int64_t count, int64_t grain,
                                int64_t first) {
    int64_t block = first < 1 ? 1 : first;
    while (begin < count) {
        int64_t end = count - begin <= block ? count : begin + block;
        int64_t before = end < count ? ingot_now() : 0;
        ingot_parallel_range(body, context, begin, end, grain);
        begin = end;
        if (begin == count)
            break;
        if (ingot_should_stop())
            return begin;
        int64_t taken = ingot_now() - before;
        double fitting = (double)block * BLOCK_NANOSECONDS / (double)(taken < 1 ? 1 : taken);
        double most = (double)block * MAX_LOOP_BLOCK_GROWTH;
        fitting = fitting < most ? fitting : most;
        block = fitting < 1 ? 1 : (fitting > (double)count ? count : (int64_t)fitting);
    }
    return count;
}

static PyObject *set_main_thread(PyObject *Py_UNUSED(module), PyObject *number) {
    unsigned long ident = PyLong_AsUnsignedLong(number);
    if (ident == (unsigned long)-1 && PyErr_Occurred())
        return NULL;
    atomic_store(&main_thread, ident);
    Py_RETURN_NONE;
}

static PyObject *stop_background(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    atomic_store(&stopping, true);
    Py_RETURN_NONE;
}

/* In the child, the forking thread is the main one. */
static void after_fork_in_child(void) {
    atomic_store(&main_thread, PyThread_get_thread_ident());
    atomic_store(&stopping, false);
}

static PyMethodDef functions[] = {
    {"set_main_thread", set_main_thread, METH_O, "set_main_thread(ident): the thread in which handlers of signals run"},
    {"stop_background", stop_background, METH_NOARGS, "Evaluations in the background end as soon as they can, with an error."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_interrupt(PyObject *module) {
    pthread_atfork(NULL, NULL, after_fork_in_child);
    return PyModule_AddFunctions(module, functions);
}
