/* Runs one node: its op's `evaluate` rule on the values of its inputs, or the program of a compiled function.
 *
 * If the node holds the only reference to an input, the result may reuse its memory: compiled programs and ops that update
 * part of an array then work in place. Meanwhile the node has neither op nor inputs, so that other threads wait for its value
 * instead of reading memory that is being overwritten. */
#include "communication/mailbox.h"
#include "evaluate/dispatch.h"
#include "evaluate/operands.h"
#include "products/product.h"
#include "numpy_api.h"
#include "programs/kept_panels.h"
#include "tuning.h"

#include <pthread.h>
#include <time.h>

static int process = 1; /* counts forks: evaluations that were running in the parent never finish in the child */

static void after_fork_in_child(void) {
    process++;
}

static void take_out(Node *node) {
    node->running = process;
    node->runner = PyThread_get_thread_ident();
    Py_CLEAR(node->op);
    Py_CLEAR(node->inputs);
}

/* Restores the node after a failure, which happens before anything is changed. */
static void put_back(Node *node, const Call *call) {
    if (node->running) {
        node->running = 0;
        node->op = Py_NewRef(call->op);
        node->inputs = Py_NewRef(call->inputs);
    }
}

static bool are_contiguous(const Call *call) {
    for (Py_ssize_t i = 0; i < call->count; i++)
        if (!is_ndarray(call->values[i + 1]) || !is_contiguous(call->values[i + 1]))
            return false;
    return true;
}

/* The native program of a compiled function: a new reference, or NULL, possibly with an error. Contiguous inputs are donated
 * at the first evaluation too, so its code is generated here and not by the op's rule. */
static PyObject *native_program(const Call *call) {
    PyObject *program = PyObject_GetAttr(call->op, attribute_names.program);
    PyObject *native = program == NULL ? NULL : PyObject_GetAttr(program, attribute_names.native);
    if (native == Py_None && are_contiguous(call)) {
        ENGINE_PAUSE
        Py_SETREF(native, PyObject_CallMethodNoArgs(program, attribute_names.plan));
        ENGINE_RESUME
    }
    Py_XDECREF(program);
    if (native != NULL && !ingot_is_program(native))
        Py_CLEAR(native); /* None: not planned yet, because that depends on the layout of the inputs */
    return native;
}

/* The strides of each input, as a tuple of tuples. */
static PyObject *strides_of_inputs(const Call *call) {
    PyObject *all = PyTuple_New(call->count);
    for (Py_ssize_t i = 0; all != NULL && i < call->count; i++) {
        PyArrayObject *array = as_ndarray(call->values[i + 1]);
        PyObject *strides = PyArray_IntTupleFromIntp(PyArray_NDIM(array), PyArray_STRIDES(array));
        if (strides == NULL)
            Py_CLEAR(all);
        else
            PyTuple_SET_ITEM(all, i, strides);
    }
    return all;
}

/* The result of the native program for inputs of this layout, which are not all contiguous; NotImplemented if there is none
 * yet. Nothing is donated: what it reuses is contiguous. */
static PyObject *run_for_layout(const Call *call) {
    for (Py_ssize_t i = 0; i < call->count; i++)
        if (!is_ndarray(call->values[i + 1]))
            return Py_NewRef(Py_NotImplemented);
    PyObject *program = PyObject_GetAttr(call->op, attribute_names.program), *native = NULL;
    PyObject *table = program == NULL ? NULL : PyObject_GetAttr(program, attribute_names.by_strides);
    bool has_any = table != NULL && PyDict_Check(table) && PyDict_GET_SIZE(table) > 0; /* None: not yet */
    PyObject *strides = has_any ? strides_of_inputs(call) : NULL;
    if (strides != NULL)
        native = ingot_dict_get(table, strides);
    Py_XDECREF(strides);
    Py_XDECREF(table);
    Py_XDECREF(program);
    if (native == NULL)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
    PyObject *suspended = NULL;
    PyObject *result = ingot_program_run(native, call->values + 1, call->count, NULL, &suspended);
    Py_DECREF(native);
    return result;
}

/* NotImplemented if the program cannot be run directly. */
static PyObject *run_program(Node *node, Call *call) {
    PyObject *native = native_program(call);
    if (native == NULL)
        return PyErr_Occurred() ? NULL : Py_NewRef(Py_NotImplemented);
    bool any = false;
    for (Py_ssize_t i = 0; i < call->count; i++) {
        call->donated[i] = call->donated[i] && ingot_program_may_reuse(native, i);
        any |= call->donated[i];
    }
    any = any && are_still_sole(node, call);
    if (any)
        take_out(node);
    PyObject *suspended = NULL;
    PyObject *result = ingot_program_run(native, call->values + 1, call->count, any ? call->donated : NULL, &suspended);
    Py_DECREF(native);
    if (suspended != NULL) {
        node->suspended = suspended; /* the inputs have been overwritten: the node resumes the run instead of its op */
        node->running = 0;
    } else if (result == NULL || result == Py_NotImplemented) {
        put_back(node, call);
    }
    if (result == Py_NotImplemented)
        Py_SETREF(result, run_for_layout(call));
    return result;
}

static Py_ssize_t size_in_bytes(PyObject *ndarray) {
    return is_contiguous(ndarray) ? PyArray_NBYTES(as_ndarray(ndarray)) : 0;
}

/* Updates the first input in place by the call that the rule `change` returns. That calls a C function, which no signal
 * interrupts between changing the memory and returning. */
static PyObject *change_input(Node *node, Call *call) {
    take_out(node);
    ingot_forget_panels(call->values[1]);
    PyObject *done = NULL;
    ENGINE_PAUSE
    PyObject *change = PyObject_VectorcallMethod(attribute_names.change, call->values, (size_t)call->count + 1, NULL);
    PyObject *arguments = change == NULL ? NULL : PyTuple_GetSlice(change, 1, PyTuple_GET_SIZE(change));
    if (arguments != NULL)
        done = PyObject_Call(PyTuple_GET_ITEM(change, 0), arguments, NULL);
    Py_XDECREF(arguments);
    Py_XDECREF(change);
    ENGINE_RESUME
    if (done == NULL) {
        put_back(node, call);
        return NULL;
    }
    Py_DECREF(done);
    return Py_NewRef(call->values[1]);
}

static bool is_large(const Call *call) {
    return call->count > 0 && is_ndarray(call->values[1]) && PyArray_SIZE(as_ndarray(call->values[1])) >= MIN_BLOCKED_ELEMENTS;
}

/* Calls the op's rule `evaluate`, or `change` if it has that rule and may overwrite the first input. */
static PyObject *run_rule(Node *node, Call *call) {
    if (call->count > 0 && call->donated[0] && size_in_bytes(call->values[1]) >= MIN_DONATED_BYTES) {
        PyObject *change = PyObject_GetAttr(call->op, attribute_names.change);
        if (change == NULL)
            return NULL;
        Py_DECREF(change);
        if (change != Py_None && are_still_sole(node, call))
            return change_input(node, call);
    }
    PyObject *large = is_large(call) ? callbacks.evaluate_large : NULL, *result;
    ENGINE_PAUSE
    result = large != NULL ? PyObject_Vectorcall(large, call->values, (size_t)call->count + 1, NULL)
                           : PyObject_VectorcallMethod(attribute_names.evaluate, call->values, (size_t)call->count + 1, NULL);
    ENGINE_RESUME
    if (result != NULL)
        Py_SETREF(result, checked_results(call->op, result, node));
    return result;
}

/* The result of a Python callback for a node: its value, or NotImplemented if the op's rule should compute it. */
static PyObject *run_callback(PyObject *callback, Node *node, const Call *call, bool gives_value) {
    Py_INCREF(callback); /* another thread may remove it */
    PyObject *values = PyTuple_New(call->count), *result = NULL;
    for (Py_ssize_t i = 0; values != NULL && i < call->count; i++)
        PyTuple_SET_ITEM(values, i, Py_NewRef(call->values[i + 1]));
    ENGINE_PAUSE
    if (values != NULL)
        result = PyObject_CallFunctionObjArgs(callback, (PyObject *)node, call->op, values, NULL);
    ENGINE_RESUME
    Py_XDECREF(values);
    Py_DECREF(callback);
    if (gives_value && result != NULL && result != Py_NotImplemented)
        Py_SETREF(result, checked_results(call->op, result, node));
    return result;
}

/* The result of the program of one op; NotImplemented if there is none. Steals the reference to the program. */
static PyObject *run_single(PyObject *program, const Call *call) {
    PyObject *result = Py_NewRef(Py_NotImplemented), *suspended = NULL;
    if (ingot_is_program(program)) {
        Py_SETREF(result, ingot_program_run(program, call->values + 1, call->count, NULL, &suspended));
        if (result != NULL && result != Py_NotImplemented)
            Py_SETREF(result, Py_NewRef(PyTuple_GET_ITEM(result, 0)));
    }
    Py_DECREF(program);
    return result;
}

/* The result of an op that is compiled by itself; NotImplemented if its rule should compute it. */
static PyObject *run_alone(Node *node, const Call *call) {
    LayoutKey key;
    bool has_key = dispatch_key(&key, call->op, call->values + 1, call->count);
    PyObject *program = has_key ? Py_XNewRef(dispatch_program(&key)) : NULL;
    if (program == NULL) {
        if ((program = run_callback(callbacks.program_alone, node, call, false)) == NULL)
            return NULL;
        if (PyTuple_Check(program)) /* for now: ask again */
            Py_SETREF(program, Py_NewRef(PyTuple_GET_ITEM(program, 0)));
        else if (has_key && program != Py_NotImplemented) /* that: not yet */
            dispatch_keep_program(&key, program);
    }
    if (!ingot_is_small_product(program))
        return run_single(program, call);
    PyObject *result = ingot_run_small_product(program, call->values[1], call->values[2]);
    Py_DECREF(program);
    return result;
}

static bool is_fused_kind(PyObject *op) {
    return callbacks.program_often != NULL && (PyObject_TypeCheck(op, (PyTypeObject *)callbacks.map_type) ||
                                               PyObject_TypeCheck(op, (PyTypeObject *)callbacks.reduce_type));
}

/* The result of a map or a reduction by its program, which it has once it has been evaluated often; NotImplemented if its
 * rule should compute it. */
static PyObject *run_often(Node *node, const Call *call) {
    LayoutKey key;
    if (!dispatch_key(&key, call->op, call->values + 1, call->count))
        return Py_NewRef(Py_NotImplemented);
    PyObject *program = Py_XNewRef(dispatch_program(&key));
    if (program == NULL) {
        if (!dispatch_recurs(&key))
            return Py_NewRef(Py_NotImplemented);
        if ((program = run_callback(callbacks.program_often, node, call, false)) == NULL)
            return NULL;
        dispatch_keep_program(&key, program);
    }
    return run_single(program, call);
}

/* The result of a small sum, maximum or minimum over processes; NotImplemented if the op's rule is to compute it. */
static PyObject *run_reduction(Node *node, const Call *call) {
    LayoutKey key;
    if (!dispatch_key(&key, call->op, call->values + 1, call->count))
        return Py_NewRef(Py_NotImplemented);
    PyObject *reduction = Py_XNewRef(dispatch_program(&key));
    if (reduction == NULL) {
        if ((reduction = run_callback(callbacks.small_reduction, node, call, false)) == NULL)
            return NULL;
        dispatch_keep_program(&key, reduction);
    }
    PyObject *result =
        ingot_is_small_reduction(reduction) ? ingot_reduce_small(reduction, call->values[1]) : Py_NewRef(Py_NotImplemented);
    Py_DECREF(reduction);
    return result;
}

static PyObject *run_view(Node *node, Call *call) {
    LayoutKey key;
    bool has_key = call->count == 1 && dispatch_key(&key, call->op, call->values + 1, 1);
    PyObject *result = has_key ? dispatch_view(&key) : NULL;
    if (result != NULL || PyErr_Occurred())
        return result;
    result = run_rule(node, call);
    if (has_key && result != NULL)
        dispatch_keep_view(&key, result);
    return result;
}

static PyObject *take_output(Node *node) {
    PyObject *number = PyObject_GetAttr(node->op, attribute_names.index);
    Py_ssize_t index = number == NULL ? -1 : PyLong_AsSsize_t(number);
    Py_XDECREF(number);
    PyObject *outputs = ((Node *)PyTuple_GET_ITEM(node->inputs, 0))->data;
    if (index < 0 || outputs == NULL || !PyTuple_Check(outputs) || index >= PyTuple_GET_SIZE(outputs)) {
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "an op lacks one of its outputs; this is a bug in ingot.");
        return NULL;
    }
    return Py_NewRef(PyTuple_GET_ITEM(outputs, index));
}

static PyObject *compute(Node *node, bool may_donate) {
    if (Py_IS_TYPE(node->op, (PyTypeObject *)callbacks.output_type))
        return take_output(node);
    if (callbacks.token != NULL && Py_TYPE(node->op) == Py_TYPE(PyTuple_GET_ITEM(callbacks.token, 0)))
        return Py_NewRef(PyTuple_GET_ITEM(callbacks.token, 3)); /* it only had to wait for its input */
    Call call;
    if (begin_call(&call, node, may_donate && callbacks.run_checked == NULL) < 0)
        return NULL;
    int64_t begin = callbacks.ran_node == NULL ? 0 : ingot_now();
    PyObject *result = Py_NewRef(Py_NotImplemented);
    if (callbacks.run_checked != NULL)
        Py_SETREF(result, run_callback(callbacks.run_checked, node, &call, true));
    else if (Py_IS_TYPE(call.op, (PyTypeObject *)callbacks.compiled_type))
        Py_SETREF(result, run_program(node, &call));
    else if (callbacks.alone_type != NULL && PyObject_TypeCheck(call.op, (PyTypeObject *)callbacks.alone_type))
        Py_SETREF(result, run_alone(node, &call));
    else if (PyObject_TypeCheck(call.op, (PyTypeObject *)callbacks.view_type))
        Py_SETREF(result, run_view(node, &call));
    else if (callbacks.reduction_type != NULL && PyObject_TypeCheck(call.op, (PyTypeObject *)callbacks.reduction_type))
        Py_SETREF(result, run_reduction(node, &call));
    else if (is_fused_kind(call.op))
        Py_SETREF(result, run_often(node, &call));
    if (result == Py_NotImplemented && callbacks.run_kernel != NULL)
        Py_SETREF(result, run_callback(callbacks.run_kernel, node, &call, true));
    if (result == Py_NotImplemented)
        Py_SETREF(result, run_rule(node, &call));
    if (begin != 0 && result != NULL)
        ingot_report_node(node, begin);
    end_call(&call);
    return result;
}

/* Waits for the thread that is evaluating the node: rare, so polling is good enough. */
static int wait_while_running(Node *node) {
    while (node->running && node->data == NULL) {
        if (node->running != process) {
            PyErr_SetString(PyExc_RuntimeError, "another thread was computing this value when this process was forked, "
                                                "and does not run here; evaluate it before forking.");
            return -1;
        }
        if (node->runner == PyThread_get_thread_ident()) {
            PyErr_SetString(PyExc_RuntimeError, "[eval] this array is being computed by the evaluation that a signal has "
                                                "interrupted: its handler cannot have the value before it returns.");
            return -1;
        }
        PyThreadState *state = PyEval_SaveThread();
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
        PyEval_RestoreThread(state);
        if (PyErr_CheckSignals() < 0)
            return -1;
    }
    return 0;
}

/* Steals the reference to the result. */
static void set_result(Node *node, PyObject *result) {
    node->running = 0;
    if (node->data == NULL)
        node->data = result;
    else
        Py_DECREF(result);
}

/* Resumes an interrupted program. */
static int resume(Node *node) {
    PyObject *suspended = node->suspended;
    node->suspended = NULL;
    node->running = process;
    node->runner = PyThread_get_thread_ident();
    PyObject *result = ingot_resume_program(suspended);
    if (result == NULL) {
        node->suspended = suspended;
        node->running = 0;
        return -1;
    }
    Py_DECREF(suspended);
    set_result(node, result);
    return 0;
}

/* Waits for the thread that evaluates the node: 1 if it has a value now, 0 if it must be computed, -1 on error. */
static int wait_for_others(Node *node, bool computes_pending) {
    if (node->pending != NULL && node->data == NULL && !computes_pending) {
        PyObject *wait = Py_NewRef(node->pending); /* the computing thread drops its reference */
        PyObject *waited;
        ENGINE_PAUSE
        waited = PyObject_CallNoArgs(wait);
        ENGINE_RESUME
        Py_DECREF(wait);
        Py_XDECREF(waited);
        if (waited == NULL)
            return -1;
    }
    if (node->running && wait_while_running(node) < 0)
        return -1;
    if (node->suspended != NULL && node->data == NULL && resume(node) < 0)
        return -1;
    return node->data != NULL;
}

int run_node(Node *node, Node *wanted, bool computes_pending, bool tracing) {
    int found = wait_for_others(node, computes_pending);
    if (found != 0)
        return found < 0 ? -1 : 0;
    if (node->op == NULL) {
        if (REQUIRED(placeholder_error) != NULL)
            Py_XDECREF(PyObject_CallFunctionObjArgs(callbacks.placeholder_error, (PyObject *)node, (PyObject *)wanted, NULL));
        if (!PyErr_Occurred())
            PyErr_SetString(PyExc_ValueError, "a placeholder has no value.");
        return -1;
    }
    PyObject *result = compute(node, !(node->tracer && tracing));
    if (result == NULL) {
        ingot_explain_node(node);
        return -1;
    }
    set_result(node, result);
    return 0;
}

int ingot_add_run_node(PyObject *Py_UNUSED(module)) {
    pthread_atfork(NULL, NULL, after_fork_in_child);
    return 0;
}
