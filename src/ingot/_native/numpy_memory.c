/* NumPy arrays in our memory: while evaluation runs, NumPy takes the memory of new arrays from the allocator, by its
 * public protocol for that (NEP 49). So results are aligned, recycled and counted like all others.
 *
 * Built without NumPy's headers: the struct and the slots of its function table are part of its stable interface and
 * declared here by hand. Hence nothing is trusted: versions are asked and a trial allocation is made first, and if
 * anything is not as expected NumPy keeps its own memory and `_native.numpy_memory_installed` stays False. */
#include "native.h"

#include "allocator.h"
#include "buffer.h"

typedef struct {
    void *context;
    void *(*malloc)(void *context, size_t size);
    void *(*calloc)(void *context, size_t count, size_t size);
    void *(*realloc)(void *context, void *block, size_t size);
    void (*free)(void *context, void *block, size_t size);
} NumpyAllocator;

typedef struct {
    char name[127];
    uint8_t version;
    NumpyAllocator allocator;
} NumpyHandler;

enum { SLOT_ABI_VERSION = 0, SLOT_FEATURE_VERSION = 211, SLOT_SET_HANDLER = 304, SLOT_GET_HANDLER = 305 };

#define ABI_OF_NUMPY_1 0x01000009u
#define ABI_OF_NUMPY_2 0x02000000u
#define FEATURE_HANDLERS 0x0fu /* NumPy 1.22, the first that has handlers */
#define HANDLER_CAPSULE "mem_handler"

typedef unsigned (*version_function)(void);
typedef PyObject *(*set_handler_function)(PyObject *handler);
typedef PyObject *(*get_handler_function)(void);

static set_handler_function set_handler; /* NULL until NumPy was examined and found as expected */
static PyObject *our_handler;
static bool examined;
static PyObject *native_module;

/* ---- what NumPy calls ---- */

static void *numpy_malloc(void *Py_UNUSED(context), size_t size) {
    return ingot_allocate(size);
}

static void *numpy_calloc(void *Py_UNUSED(context), size_t count, size_t size) {
    size_t total;
    return __builtin_mul_overflow(count, size, &total) ? NULL : ingot_allocate_zeroed(total);
}

static void *numpy_realloc(void *Py_UNUSED(context), void *block, size_t size) {
    return ingot_reallocate(block, size);
}

static void numpy_free(void *Py_UNUSED(context), void *block, size_t size) {
    ingot_release(block, size);
}

static void *trial_malloc(void *context, size_t size) {
    ++*(int *)context;
    return ingot_allocate(size);
}

static void trial_free(void *context, void *block, size_t size) {
    ++*(int *)context;
    ingot_release(block, size);
}

static NumpyHandler handler = {
    .name = "ingot",
    .version = 1,
    .allocator = {NULL, numpy_malloc, numpy_calloc, numpy_realloc, numpy_free},
};

static int trial_calls;

static NumpyHandler trial_handler = {
    .name = "ingot_trial",
    .version = 1,
    .allocator = {&trial_calls, trial_malloc, numpy_calloc, numpy_realloc, trial_free},
};

/* ---- examining NumPy ---- */

/* NumPy's module of array functions; NULL with an exception. */
static PyObject *import_multiarray(void) {
    PyObject *multiarray = PyImport_ImportModule("numpy._core.multiarray");
    if (multiarray == NULL && PyErr_ExceptionMatches(PyExc_ImportError)) {
        PyErr_Clear();
        multiarray = PyImport_ImportModule("numpy.core.multiarray");
    }
    return multiarray;
}

static void **function_table(PyObject *multiarray) {
    PyObject *capsule = PyObject_GetAttrString(multiarray, "_ARRAY_API");
    void **table = capsule == NULL ? NULL : PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF(capsule);
    return table;
}

/* Makes and drops an array under the trial handler; true if NumPy came to it for both. */
static bool trial_succeeds(PyObject *multiarray, set_handler_function set, get_handler_function get) {
    PyObject *trial = PyCapsule_New(&trial_handler, HANDLER_CAPSULE, NULL);
    PyObject *before = trial == NULL ? NULL : set(trial);
    if (before == NULL) {
        Py_XDECREF(trial);
        return false;
    }
    trial_calls = 0;
    PyObject *current = get();
    PyObject *probe = PyObject_CallMethod(multiarray, "empty", "((n)s)", (Py_ssize_t)4096, "u1");
    bool good = current == trial && probe != NULL && trial_calls == 1;
    Py_XDECREF(probe);
    good = good && trial_calls == 2;
    PyObject *replaced = set(before);
    good = good && replaced == trial && PyCapsule_IsValid(before, HANDLER_CAPSULE);
    Py_XDECREF(current);
    Py_XDECREF(replaced);
    Py_DECREF(before);
    Py_DECREF(trial);
    return good;
}

/* NULL if all is well, otherwise what is not. */
static const char *examine_numpy(void) {
    PyObject *multiarray = import_multiarray();
    if (multiarray == NULL) {
        return "NumPy cannot be imported.";
    }
    void **table = function_table(multiarray);
    const char *problem = NULL;
    if (table == NULL) {
        problem = "NumPy has no table of C functions.";
    } else {
        unsigned abi = ((version_function)table[SLOT_ABI_VERSION])();
        bool known = abi == ABI_OF_NUMPY_1 || abi == ABI_OF_NUMPY_2;
        if (!known || ((version_function)table[SLOT_FEATURE_VERSION])() < FEATURE_HANDLERS) {
            problem = "This version of NumPy is not known to let others manage its memory.";
        }
    }
    if (problem == NULL) {
        set_handler_function set = (set_handler_function)table[SLOT_SET_HANDLER];
        our_handler = PyCapsule_New(&handler, HANDLER_CAPSULE, NULL);
        if (our_handler != NULL && trial_succeeds(multiarray, set, (get_handler_function)table[SLOT_GET_HANDLER])) {
            set_handler = set;
        } else {
            problem = "A trial array of NumPy's did not use the memory it was told to use.";
        }
    }
    Py_DECREF(multiarray);
    return problem;
}

static int examine_once(void) {
    examined = true;
    const char *problem = examine_numpy();
    PyErr_Clear();
    if (PyModule_AddObjectRef(native_module, "numpy_memory_installed", problem == NULL ? Py_True : Py_False) < 0) {
        return -1;
    }
    return PyModule_AddStringConstant(native_module, "numpy_memory_problem", problem == NULL ? "" : problem);
}

/* ---- the bracket ---- */

int ingot_use_numpy_memory(PyObject **saved) {
    *saved = NULL;
    if (!examined && examine_once() < 0) {
        return -1;
    }
    if (set_handler == NULL) {
        return 0;
    }
    *saved = set_handler(our_handler);
    return *saved == NULL ? -1 : 0;
}

void ingot_restore_numpy_memory(PyObject *saved) {
    if (saved == NULL) {
        return;
    }
    PyObject *type, *value, *traceback;
    PyErr_Fetch(&type, &value, &traceback);
    PyObject *ours = set_handler(saved);
    if (ours == NULL) {
        PyErr_WriteUnraisable(saved);
    }
    Py_XDECREF(ours);
    Py_DECREF(saved);
    PyErr_Restore(type, value, traceback);
}

static PyObject *enter_numpy_memory(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none)) {
    PyObject *saved;
    if (ingot_use_numpy_memory(&saved) < 0) {
        return NULL;
    }
    return saved == NULL ? Py_NewRef(Py_None) : saved;
}

static PyObject *leave_numpy_memory(PyObject *Py_UNUSED(module), PyObject *token) {
    if (token != Py_None && (set_handler == NULL || !PyCapsule_IsValid(token, HANDLER_CAPSULE))) {
        PyErr_Format(PyExc_TypeError, "[leave_numpy_memory] expected what enter_numpy_memory returned, got %R.", token);
        return NULL;
    }
    ingot_restore_numpy_memory(token == Py_None ? NULL : Py_NewRef(token));
    Py_RETURN_NONE;
}

static PyMethodDef functions[] = {
    {"enter_numpy_memory", enter_numpy_memory, METH_NOARGS,
     "enter_numpy_memory(): arrays NumPy makes from now on, in this context, use the allocator; returns a token"},
    {"leave_numpy_memory", leave_numpy_memory, METH_O,
     "leave_numpy_memory(token): NumPy uses again what it used before the token was made"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_numpy_memory(PyObject *module) {
    native_module = module; /* the module lives as long as the process */
    if (PyModule_AddObjectRef(module, "numpy_memory_installed", Py_False) < 0 ||
        PyModule_AddStringConstant(module, "numpy_memory_problem", "NumPy's memory was not needed yet.") < 0) {
        return -1;
    }
    return PyModule_AddFunctions(module, functions);
}
