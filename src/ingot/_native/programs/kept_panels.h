/* Panels that programs pack from arrays and keep for later runs with the same arrays. */
#ifndef INGOT_KEPT_PANELS_H
#define INGOT_KEPT_PANELS_H

#include "native.h"

/* A block of a program that is computed from one input or constant alone: packed or converted matrices. */
typedef struct KeptPanels {
    int slot, source; /* slots of the block and of what it is computed from */
    size_t nbytes;
    PyObject *seen;                     /* a weak reference to the source in the last run, or NULL */
    PyObject *panels;                   /* a Buffer with what was computed from it, or NULL */
    struct KeptPanels *previous, *next; /* those that have panels */
} KeptPanels;

/* Whether panels may be kept for an input of a run: nothing but its node and the run refer to it, so that it is not
 * overwritten unnoticed. */
bool ingot_may_keep(PyObject *array);

/* A new reference to the panels of an array; NULL, without an exception, if there are none. */
PyObject *ingot_kept_panels(const KeptPanels *kept, PyObject *array);

/* Notes that `panels` were computed from an array: keeps them if it was the input of the last run too. */
void ingot_keep_panels(KeptPanels *kept, PyObject *array, PyObject *panels);

/* Drops what was kept: by one program; for an array that is about to be changed, or that others may change from now on;
 * everything. */
void ingot_drop_panels(KeptPanels *kept);
void ingot_forget_panels(PyObject *array);
void ingot_forget_all_panels(void);

#endif
