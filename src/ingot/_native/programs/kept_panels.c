/* Panels that programs pack from arrays and keep for later runs with the same arrays.
 *
 * An array is known by a weak reference, so that keeping panels does not keep it alive, nor from being donated. Panels are
 * dropped when the array dies, is changed in place, or is handed to code that may write to its memory. All of this is under
 * the engine lock. */
#include "programs/kept_panels.h"

#include "memory/buffer.h"
#include "numpy_api.h"
#include "tuning.h"

static KeptPanels *all; /* those that have panels */
static size_t kept_bytes;
static PyObject *on_death; /* called with a weak reference whose array is gone */

bool ingot_may_keep(PyObject *array) {
    return Py_REFCNT(array) == 2 && PyArray_CheckExact(array) && PyArray_BASE(as_ndarray(array)) == NULL &&
           PyArray_CHKFLAGS(as_ndarray(array), NPY_ARRAY_OWNDATA);
}

static bool refers_to(PyObject *weak, PyObject *array) {
    if (weak == NULL)
        return false;
    PyObject *object = ingot_referent(weak);
    Py_XDECREF(object);
    return object == array; /* which is alive */
}

static void drop(KeptPanels *kept) {
    if (kept->panels == NULL)
        return;
    if (kept->previous != NULL)
        kept->previous->next = kept->next;
    else
        all = kept->next;
    if (kept->next != NULL)
        kept->next->previous = kept->previous;
    kept->previous = kept->next = NULL;
    kept_bytes -= kept->nbytes;
    Py_CLEAR(kept->panels);
}

void ingot_drop_panels(KeptPanels *kept) {
    ENGINE_BEGIN
    drop(kept);
    Py_CLEAR(kept->seen);
    ENGINE_END
}

void ingot_forget_panels(PyObject *array) {
    ENGINE_BEGIN
    for (KeptPanels *kept = all, *next; kept != NULL; kept = next) {
        next = kept->next;
        if (refers_to(kept->seen, array))
            drop(kept);
    }
    ENGINE_END
}

void ingot_forget_all_panels(void) {
    ENGINE_BEGIN
    while (all != NULL)
        drop(all);
    ENGINE_END
}

static PyObject *array_died(PyObject *Py_UNUSED(module), PyObject *weak) {
    for (KeptPanels *kept = all, *next; kept != NULL; kept = next) {
        next = kept->next;
        if (kept->seen == weak)
            drop(kept);
    }
    Py_RETURN_NONE;
}

PyObject *ingot_kept_panels(const KeptPanels *kept, PyObject *array) {
    return kept->panels != NULL && refers_to(kept->seen, array) ? Py_NewRef(kept->panels) : NULL;
}

void ingot_keep_panels(KeptPanels *kept, PyObject *array, PyObject *panels) {
    if (!refers_to(kept->seen, array)) {
        drop(kept);
        Py_XSETREF(kept->seen, PyWeakref_NewRef(array, on_death));
        PyErr_Clear(); /* without a reference, nothing is kept */
        return;
    }
    if (kept->panels != NULL || kept_bytes + kept->nbytes > MAX_KEPT_PANEL_BYTES)
        return;
    kept->panels = Py_NewRef(panels);
    kept_bytes += kept->nbytes;
    kept->next = all;
    if (all != NULL)
        all->previous = kept;
    all = kept;
}

LOCKS_METHOD(array_died)

static PyMethodDef died = {"array_died", LOCKED(array_died), METH_O, "Drops the panels of an array that is gone."};

int ingot_add_kept_panels(PyObject *Py_UNUSED(module)) {
    on_death = PyCFunction_New(&died, NULL);
    return on_death == NULL ? -1 : 0;
}
