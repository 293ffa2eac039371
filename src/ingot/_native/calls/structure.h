/* How compiled functions classify Python objects: trees, constants, and instances with attributes. */
#ifndef INGOT_STRUCTURE_H
#define INGOT_STRUCTURE_H
#include "native.h"

typedef enum {
    KIND_ARRAY,
    KIND_SEQUENCE, /* lists and tuples, also of subclasses */
    KIND_DICT,     /* also of subclasses, such as modules */
    KIND_OBJECT,   /* an instance of a class written in Python, with attributes in its dict or slots */
    KIND_METHOD,   /* a bound method: a function and an object */
    KIND_PARTIAL,  /* functools.partial: a function and a tree of arguments */
    KIND_CONSTANT, /* equal values have equal keys, and it cannot change */
    KIND_SET,
    KIND_NDARRAY,
    KIND_FOREIGN, /* anything else, which cannot be inspected */
} Kind;

Kind kind_of(PyObject *object); /* never fails */
/* Whether an instance has mutable attributes: those of KIND_OBJECT, modules, subclasses of dict and list. */
bool has_attributes(PyObject *object);
/* Whether instances of a type are trees wherever they occur: dataclasses, and classes that set `_is_tree`. */
bool is_tree_type(PyTypeObject *type);
/* The instance's dict: a new reference, NULL without an error where there is none. */
PyObject *instance_dict(PyObject *object);
/* An attribute of a class or its bases: a new reference, NULL without an error where there is none. */
PyObject *ingot_class_attribute(PyTypeObject *type, PyObject *name);
/* What a deque or the like holds: a new list, dict or bytes; NULL without an error for objects of other types. */
PyObject *contents_of(PyObject *object);
/* Names of slots with values, of all classes: a new list; NULL with an error. */
PyObject *slot_names(PyTypeObject *type);

/* Numbers for pointers, in the order in which they are added. */
typedef struct {
    void *pointer;
    Py_ssize_t number;
    Py_ssize_t position; /* of an array among the arrays; -1 for others */
    bool is_open;        /* being traversed: finding it again is a cycle */
    bool in_place;       /* found inside an object or a captured container */
} Seen;

#define SEEN_INLINE 8

typedef struct {
    Seen inline_table[SEEN_INLINE];
    Seen *table; /* a hash table once the inline table is full; NULL before */
    Py_ssize_t count, capacity;
} SeenSet;

void seen_begin(SeenSet *set);
void seen_end(SeenSet *set);
Seen *seen_find(SeenSet *set, void *pointer);
int seen_add(SeenSet *set, void *pointer, Py_ssize_t position, bool in_place); /* -1 with MemoryError */
void seen_close(SeenSet *set, void *pointer);

/* Whether all guards hold; -1 with an error. `objects` is the list of a signature, or NULL. */
int guards_hold(PyObject *guards, PyObject *objects);

typedef struct {
    PyObject *key;     /* list, made a tuple at the end */
    PyObject *arrays;  /* list */
    PyObject *objects; /* list of instances with attributes, or NULL while there are none */
    SeenSet seen;
    bool shapes;                /* whether the key holds shapes, or only numbers of axes */
    bool values;                /* whether arrays are inputs, or only positions in a structure */
    bool in_place;              /* inside objects and captured containers: arrays are identified by their handles */
    bool lenient;               /* inside objects: a foreign value is an error only when it is read */
    bool any_object;            /* what a method or partial is bound to: objects of all classes are traversed */
    bool by_identity;           /* objects are compared by identity and not traversed: for guards */
    bool nodes;                 /* what arrays point at is part of the key: for guards */
    bool shares_containers;     /* a list or dict of the arguments is also inside an object */
    Py_ssize_t outside, inside; /* the numbers of arrays outside and inside objects and captured containers */
} Signature;

bool begin_signature(Signature *self, bool shapes, bool values);
void end_signature(Signature *self);
/* The arguments of a call; `has_receiver`: the first may be an object of any class. */
int add_arguments(Signature *self, PyObject *arguments, bool has_receiver);
int add_captured(Signature *self, PyObject *tree, bool any_object);
int add_keywords(Signature *self, PyObject *keywords);
/* The key as a tuple, once everything is added: a new reference. */
PyObject *finished_key(Signature *self);

extern PyObject *ForeignArgument;

#endif
