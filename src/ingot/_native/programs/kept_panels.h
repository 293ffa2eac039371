/* Panels that programs pack from arrays and keep for later runs with the same arrays. */
#ifndef INGOT_KEPT_PANELS_H
#define INGOT_KEPT_PANELS_H

#include "native.h"
#include "tuning.h"

/* What a block was computed from in an earlier run, and the block if it is kept. */
typedef struct Panels {
    PyObject *owner;                /* a weak reference to the array that owns the memory of the source */
    const char *data;               /* the address of the source in it */
    PyObject *panels;               /* a Buffer, or NULL: the source has been seen once */
    struct KeptPanels *block;       /* whose these are */
    struct Panels *previous, *next; /* of all blocks */
} Panels;

/* A block of a program that is computed from one input or constant alone: packed or converted matrices. */
typedef struct KeptPanels {
    int slot, source; /* slots of the block and of what it is computed from */
    size_t nbytes;
    Panels *sources[MAX_KEPT_SOURCES]; /* the most recently added first, then NULLs */
} KeptPanels;

/* Whether panels may be kept for an input of a run: nothing but its node and the run refer to it, and to the memory that it
 * is a view of only one node more, so that it is not overwritten unnoticed. */
bool ingot_may_keep(PyObject *array);

/* A new reference to the panels of an array; NULL, without an exception, if there are none. */
PyObject *ingot_kept_panels(const KeptPanels *kept, PyObject *array);

/* Notes that `panels` were computed from an array: keeps them if it has been the input of a run before. */
void ingot_keep_panels(KeptPanels *kept, PyObject *array, PyObject *panels);

/* Drops what was kept: by one program; for the memory of an array that is about to be changed; everything. */
void ingot_drop_panels(KeptPanels *kept);
void ingot_forget_panels(PyObject *array);
void ingot_forget_all_panels(void);

/* An array is given to others, who may change its memory from now on, as long as they refer to it. */
void ingot_lend(PyObject *array);

/* A view of an array is about to be made: if nothing but its node and the caller refer to the array, nobody borrows it. */
void ingot_end_loan(PyObject *array);

#endif
