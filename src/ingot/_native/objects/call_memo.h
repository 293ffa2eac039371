/* What public functions made of their arguments, to be made again without Python (call_memo.c). */
#ifndef INGOT_CALL_MEMO_H
#define INGOT_CALL_MEMO_H

#include "native.h"

#define MAX_KEY_WORDS 160
#define MAX_KEY_ARRAYS 8

/* What the result of a call depends on. Everything is borrowed from the arguments. */
typedef struct {
    uint64_t hash;
    int word_count, kept_count, array_count;
    uint64_t words[MAX_KEY_WORDS];
    PyObject *kept[MAX_KEY_WORDS];
    PyObject *objects[MAX_KEY_ARRAYS]; /* the arguments that are arrays */
    Node *nodes[MAX_KEY_ARRAYS];       /* what they point to */
} MemoKey;

/* The key of a call; false if it has none. Never fails. */
bool memo_key(MemoKey *key, PyObject *function, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
/* 1 and the result's node, a new reference, if the call is known, and the argument that it returned, if it did: borrowed.
 * 0 if not, -1 on error. */
int memo_find(const MemoKey *key, PyObject **argument, Node **result);
/* Remembers that the call gave `result`, by the handle `object`. The key's arrays must still be there; of its nodes, those that
 * the call has re-pointed must be kept by the caller. */
void memo_keep(const MemoKey *key, Node *result, PyObject *object);

#endif
