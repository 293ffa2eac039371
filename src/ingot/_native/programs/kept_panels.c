/* Panels that programs pack from arrays and keep for later runs with the same arrays.
 *
 * An array is known by a weak reference to the owner of its memory, so that keeping panels does not keep it alive, nor from
 * being donated, and by its address: `w.T` is a new array in each evaluation. Panels are dropped when the owner dies, is
 * changed in place, or is handed to code that may write to its memory. All of this is under the engine lock. */
#include "programs/kept_panels.h"

#include "memory/buffer.h"
#include "numpy_api.h"

static Panels *all;
static size_t kept_bytes;
static PyObject *on_death; /* called with a weak reference whose array is gone */

/* A flag of arrays that others have or had references to. NumPy uses this bit in requests, but not in arrays. */
#define LENT NPY_ARRAY_ENSURECOPY

static bool owns_memory(PyObject *array) {
    return PyArray_CheckExact(array) && PyArray_BASE(as_ndarray(array)) == NULL &&
           PyArray_CHKFLAGS(as_ndarray(array), NPY_ARRAY_OWNDATA);
}

/* The array that owns the memory of an array, or the array itself if that is unknown. */
static PyObject *owner_of(PyObject *array) {
    PyObject *base = PyArray_CheckExact(array) ? PyArray_BASE(as_ndarray(array)) : NULL;
    return base != NULL && owns_memory(base) ? base : array;
}

bool ingot_may_keep(PyObject *array) {
    if (Py_REFCNT(array) != 2)
        return false;
    PyObject *owner = owner_of(array);
    if (!owns_memory(owner))
        return false;
    /* Of a view's owner, the other reference is that of its node or of another view, which nobody may write to while there
     * are two; or that of a borrower. */
    return owner == array || (Py_REFCNT(owner) == 2 && !PyArray_CHKFLAGS(as_ndarray(owner), LENT));
}

static bool refers_to(PyObject *weak, PyObject *array) {
    PyObject *object = ingot_referent(weak);
    Py_XDECREF(object);
    return object == array; /* which is alive */
}

/* Takes panels out of all lists and releases them. */
static void drop(Panels *panels) {
    Panels **sources = panels->block->sources;
    int i = 0;
    while (sources[i] != panels)
        i++;
    for (; i + 1 < MAX_KEPT_SOURCES && sources[i] != NULL; i++)
        sources[i] = sources[i + 1];
    sources[i] = NULL;
    if (panels->previous != NULL)
        panels->previous->next = panels->next;
    else
        all = panels->next;
    if (panels->next != NULL)
        panels->next->previous = panels->previous;
    if (panels->panels != NULL)
        kept_bytes -= panels->block->nbytes;
    Py_XDECREF(panels->panels);
    Py_DECREF(panels->owner);
    PyMem_Free(panels);
}

void ingot_drop_panels(KeptPanels *kept) {
    ENGINE_BEGIN
    while (kept->sources[0] != NULL)
        drop(kept->sources[0]);
    ENGINE_END
}

void ingot_forget_panels(PyObject *array) {
    PyObject *owner = owner_of(array);
    ENGINE_BEGIN
    for (Panels *panels = all, *next; panels != NULL; panels = next) {
        next = panels->next;
        if (refers_to(panels->owner, owner))
            drop(panels);
    }
    ENGINE_END
}

void ingot_forget_all_panels(void) {
    ENGINE_BEGIN
    while (all != NULL)
        drop(all);
    ENGINE_END
}

void ingot_lend(PyObject *array) {
    ingot_forget_panels(array);
    PyObject *owner = owner_of(array);
    if (owns_memory(owner))
        PyArray_ENABLEFLAGS(as_ndarray(owner), LENT);
}

void ingot_end_loan(PyObject *array) {
    if (Py_REFCNT(array) == 2 && PyArray_CheckExact(array))
        PyArray_CLEARFLAGS(as_ndarray(array), LENT);
}

static PyObject *array_died(PyObject *Py_UNUSED(module), PyObject *weak) {
    for (Panels *panels = all, *next; panels != NULL; panels = next) {
        next = panels->next;
        if (panels->owner == weak)
            drop(panels);
    }
    Py_RETURN_NONE;
}

static Panels *find(const KeptPanels *kept, PyObject *array) {
    const char *data = ndarray_data(array);
    for (int i = 0; i < MAX_KEPT_SOURCES && kept->sources[i] != NULL; i++) {
        Panels *panels = kept->sources[i];
        if (panels->data == data && refers_to(panels->owner, owner_of(array)))
            return panels;
    }
    return NULL;
}

PyObject *ingot_kept_panels(const KeptPanels *kept, PyObject *array) {
    Panels *panels = find(kept, array);
    return panels == NULL ? NULL : Py_XNewRef(panels->panels);
}

/* Notes the array that panels were computed from for the first time. */
static void note(KeptPanels *kept, PyObject *array) {
    if (kept->sources[MAX_KEPT_SOURCES - 1] != NULL)
        drop(kept->sources[MAX_KEPT_SOURCES - 1]);
    Panels *panels = PyMem_Calloc(1, sizeof *panels);
    PyObject *owner = panels == NULL ? NULL : PyWeakref_NewRef(owner_of(array), on_death);
    if (owner == NULL) {
        PyErr_Clear(); /* without a reference, nothing is kept */
        PyMem_Free(panels);
        return;
    }
    *panels = (Panels){.owner = owner, .data = ndarray_data(array), .block = kept, .next = all};
    if (all != NULL)
        all->previous = panels;
    all = panels;
    memmove(kept->sources + 1, kept->sources, (MAX_KEPT_SOURCES - 1) * sizeof(Panels *));
    kept->sources[0] = panels;
}

void ingot_keep_panels(KeptPanels *kept, PyObject *array, PyObject *buffer) {
    Panels *panels = find(kept, array);
    if (panels == NULL) {
        note(kept, array);
    } else if (panels->panels == NULL && kept_bytes + kept->nbytes <= MAX_KEPT_PANEL_BYTES) {
        panels->panels = Py_NewRef(buffer);
        kept_bytes += kept->nbytes;
    }
}

LOCKS_METHOD(array_died)

static PyMethodDef died = {"array_died", LOCKED(array_died), METH_O, "Drops the panels of an array that is gone."};

int ingot_add_kept_panels(PyObject *Py_UNUSED(module)) {
    on_death = PyCFunction_New(&died, NULL);
    return on_death == NULL ? -1 : 0;
}
