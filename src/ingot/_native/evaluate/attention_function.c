/* attention_step: the Python entry point for attention of few queries. */
#include "native.h"
#include "evaluate/attention_step.h"

#include "memory/allocator.h"
#include "memory/buffer.h"
#include "numpy_api.h"

static bool is_operand(PyObject *object, int type, int axes) {
    return PyArray_CheckExact(object) && PyArray_NDIM(as_ndarray(object)) == axes &&
           (type < 0 || PyArray_TYPE(as_ndarray(object)) == type);
}

/* Strides in elements. */
static void take_strides(PyObject *object, int64_t *strides, int axes) {
    for (int axis = 0; axis < axes; axis++)
        strides[axis] = PyArray_STRIDE(as_ndarray(object), axis) / PyArray_ITEMSIZE(as_ndarray(object));
}

static AttentionOperand operand_of(PyObject *object) {
    AttentionOperand operand = {.data = ndarray_data(object)};
    take_strides(object, operand.strides, 3);
    return operand;
}

static bool are_operands(PyObject *q, PyObject *k, PyObject *v, PyObject *mask, PyObject *sinks) {
    if (!is_operand(q, -1, 4))
        return false;
    int type = PyArray_TYPE(as_ndarray(q));
    bool known = type == NPY_FLOAT32 || type == NPY_FLOAT16 ||
                 PyArray_DESCR(as_ndarray(q)) == (PyArray_Descr *)dtype_table[BFLOAT16]->numpy;
    return known && is_operand(k, type, 4) && is_operand(v, type, 4) &&
           (mask == Py_None || is_operand(mask, NPY_BOOL, 4) || is_operand(mask, NPY_FLOAT32, 4)) &&
           (sinks == Py_None || is_operand(sinks, NPY_FLOAT32, 2));
}

static void describe(AttentionStep *step, PyObject *q, PyObject *k, PyObject *v, PyObject *mask, PyObject *sinks) {
    const npy_intp *lengths = PyArray_DIMS(as_ndarray(q));
    int type = PyArray_TYPE(as_ndarray(q));
    step->examples = lengths[0];
    step->heads = lengths[1];
    step->queries = lengths[2];
    step->width = lengths[3];
    step->key_heads = PyArray_DIM(as_ndarray(k), 1);
    step->keys = PyArray_DIM(as_ndarray(k), 2);
    step->value_width = PyArray_DIM(as_ndarray(v), 3);
    step->element = type == NPY_FLOAT32 ? ELEMENT_FLOAT32 : type == NPY_FLOAT16 ? ELEMENT_FLOAT16 : ELEMENT_BFLOAT16;
    step->q = operand_of(q);
    step->k = operand_of(k);
    step->v = operand_of(v);
    if (mask != Py_None) {
        step->mask = ndarray_data(mask);
        step->mask_is_bool = PyArray_TYPE(as_ndarray(mask)) == NPY_BOOL;
        take_strides(mask, step->mask_strides, 4);
    }
    if (sinks != Py_None) {
        step->sinks = (const float *)(const void *)ndarray_data(sinks);
        take_strides(sinks, step->sink_strides, 2);
    }
}

/* attention_step(q, k, v, scale, causal, mask, sinks) -> float32 ndarray. Rows of q, k and v are contiguous; a mask and sinks
 * are broadcast to all scores and all heads. */
static PyObject *attention_step(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *q, *k, *v, *mask, *sinks;
    AttentionStep step = {0};
    int causal;
    if (!PyArg_ParseTuple(arguments, "OOOfpOO:attention_step", &q, &k, &v, &step.scale, &causal, &mask, &sinks))
        return NULL;
    if (!are_operands(q, k, v, mask, sinks)) {
        PyErr_SetString(PyExc_TypeError, "attention_step takes ndarrays of one floating-point type, with four axes.");
        return NULL;
    }
    describe(&step, q, k, v, mask, sinks);
    step.causal = causal;
    npy_intp shape[4] = {step.examples, step.heads, step.queries, step.value_width};
    PyObject *result = PyArray_SimpleNew(4, shape, NPY_FLOAT32);
    size_t nbytes = sizeof(float) * (size_t)attention_step_plan(&step);
    if (result == NULL || nbytes == 0)
        return result;
    step.result = (float *)(void *)ndarray_data(result);
    if ((step.partial = ingot_allocate(nbytes)) == NULL) {
        Py_DECREF(result);
        return ingot_no_memory(nbytes);
    }
    PyThreadState *state = attention_step_is_long(&step) ? PyEval_SaveThread() : NULL;
    attention_step_run(&step);
    if (state != NULL)
        PyEval_RestoreThread(state);
    ingot_release(step.partial, nbytes);
    return result;
}

static PyMethodDef functions[] = {
    {"attention_step", attention_step, METH_VARARGS, "attention_step(q, k, v, scale, causal, mask, sinks) -> ndarray"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_attention(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
