/* A cache of the graphs that public functions build, which replays a call without running Python (call_memo.c). */
#ifndef INGOT_CALL_MEMO_H
#define INGOT_CALL_MEMO_H

#include "objects/two_way_cache.h"

#define MAX_KEY_WORDS 160
#define MAX_KEY_ARRAYS 8

/* Everything that the result of a call depends on. Its nodes are owned, because another thread may re-point an array to
 * another node while the key is made or used; all other references are borrowed from the arguments. */
typedef struct {
    WordKey key;
    int kept_count, array_count;
    int open_lists; /* lists that are being pushed */
    uint64_t words[MAX_KEY_WORDS];
    PyObject *kept[MAX_KEY_WORDS];
    PyObject *objects[MAX_KEY_ARRAYS]; /* the arguments that are arrays */
    Node *nodes[MAX_KEY_ARRAYS];       /* what they pointed to when the key was made */
} MemoKey;

/* Fills in the key of a call; false if the call cannot be cached. Never raises. The key must be released either way. */
bool memo_key(MemoKey *key, PyObject *function, PyObject *const *arguments, Py_ssize_t count, PyObject *keywords);
void memo_key_release(MemoKey *key);
/* Looks up a call. Returns 1 if it is known, 0 if not, -1 on error. `result` becomes the node of the result (a new
 * reference) and `argument` the argument that the call returned, if it returned one (borrowed). */
int memo_find(const MemoKey *key, PyObject **argument, Node **result);
/* Records that the call returned `result` under the handle `object`. The key's arrays must still be alive. */
void memo_keep(const MemoKey *key, Node *result, PyObject *object);

#endif
