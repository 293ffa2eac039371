/* The instances of one trace, by the shapes of the inputs. */
#ifndef INGOT_SHAPE_TABLE_H
#define INGOT_SHAPE_TABLE_H
#include "native.h"

/* The fields of an entry of the native fast path; states, guards and the next entry may be None. */
enum { OP, SHAPES, DTYPES, OUTPUT_OPS, BUILDER, STATES, COUNTER, GUARDS, NEXT, ENTRY_SIZE };

/* The attribute guards of the trace: borrowed; None if there are none. */
PyObject *shape_table_guards(PyObject *table);
/* The entry for arrays of these shapes, created if a program of the trace serves them: a new reference; NULL, possibly
 * with an error, if only Python can create it. */
PyObject *shape_table_entry(PyObject *table, PyObject *arrays, bool *is_new);
/* Records a call whose entry was new, with the shapes of the first `count` arrays. */
int shape_table_note_new(PyObject *table, PyObject *arrays, Py_ssize_t count);

#endif
