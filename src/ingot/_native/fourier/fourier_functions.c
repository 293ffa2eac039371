/* Python bindings for Fourier transforms. */
#include "numpy_api.h"

#include "fourier/fourier.h"
#include "routines/routine.h"

static const char PLAN[] = "ingot fourier plan";

static void free_plan(PyObject *capsule) {
    ingot_free_fourier_plan(PyCapsule_GetPointer(capsule, PLAN));
}

/* fourier_plan(length, is_real, lanes=16) -> a plan for that length of the complex transform, with vectors of at most so
 * many lanes, or None if a prime factor is too large */
static PyObject *fourier_plan(PyObject *Py_UNUSED(module), PyObject *arguments) {
    Py_ssize_t length, lanes = 16;
    int is_real;
    bool supported;
    if (!PyArg_ParseTuple(arguments, "np|n:fourier_plan", &length, &is_real, &lanes))
        return NULL;
    if (length < 1 || length > INT32_MAX || lanes < 4)
        Py_RETURN_NONE;
    ingot_fourier_plan *plan = ingot_plan_fourier(length, is_real, ingot_fourier_lanes(lanes), &supported);
    if (!supported)
        Py_RETURN_NONE;
    if (plan == NULL)
        return PyErr_NoMemory();
    PyObject *capsule = PyCapsule_New(plan, PLAN, free_plan);
    if (capsule == NULL)
        ingot_free_fourier_plan(plan);
    return capsule;
}

void *ingot_fourier_plan_of(PyObject *capsule) {
    return PyCapsule_GetPointer(capsule, PLAN);
}

/* Rows along the middle axis of three. numbers: the lengths of the other two, whether it is the inverse transform; operands:
 * numbers, results, a float that results are multiplied by */
int ingot_call_fourier(const RoutineCall *call, const RoutineMemory *memory) {
    const ingot_fourier_plan *plan = call->address;
    bool backward = call->numbers[2] != 0;
    ingot_fourier transform = {
        .plan = plan,
        .kind = plan->is_real ? (backward ? FOURIER_REAL_BACKWARD : FOURIER_REAL_FORWARD)
                              : (backward ? FOURIER_BACKWARD : FOURIER_FORWARD),
        .before = call->numbers[0],
        .behind = call->numbers[1],
        .from = (const float *)(void *)ingot_operand(call, memory, 0),
        .to = (float *)(void *)ingot_operand(call, memory, 1),
        .scale = *(const float *)(void *)ingot_operand(call, memory, 2),
    };
    return ingot_transform(&transform) ? ROUTINE_DONE : ROUTINE_INTERRUPTED;
}

static PyMethodDef functions[] = {
    {"fourier_plan", fourier_plan, METH_VARARGS, "fourier_plan(length, is_real, lanes=16) -> a plan, or None if there is none"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_fourier(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
