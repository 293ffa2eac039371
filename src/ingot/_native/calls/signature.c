/* signature: the arrays in the arguments of a compiled call, and a key for the rest.
 *
 * Objects are traversed: their arrays, containers and other objects belong to the key. Their other attributes do not,
 * because those that matter are found during tracing and compared by guards (guards.c). */
#include "calls/structure.h"

PyObject *ForeignArgument;

/* Unique objects that cannot be in a key otherwise, so that keys are unambiguous. */
static PyObject *again_mark, *end_mark, *foreign_mark;

static int add(Signature *self, PyObject *item) { /* steals the reference */
    if (item == NULL)
        return -1;
    int status = PyList_Append(self->key, item);
    Py_DECREF(item);
    return status;
}

static int add_borrowed(Signature *self, PyObject *item) {
    return PyList_Append(self->key, item);
}

static int add_type(Signature *self, PyObject *item) {
    return add_borrowed(self, (PyObject *)Py_TYPE(item));
}

static int add_tree(Signature *self, PyObject *tree);

static int add_again(Signature *self, Seen *seen) {
    return add_borrowed(self, again_mark) < 0 ? -1 : add(self, PyLong_FromSsize_t(seen->number));
}

static int add_identity(Signature *self, PyObject *object) {
    return add_type(self, object) < 0 ? -1 : add(self, PyLong_FromVoidPtr(object));
}

static int refuse(PyObject *object) {
    PyErr_Format(ForeignArgument, "[compile] arguments are trees of arrays and constants, and %s is neither.",
                 Py_TYPE(object)->tp_name);
    return -1;
}

/* ---- arrays ---- */

/* Inside objects, the function may reassign handles, so which handles are shared is part of the key. */
static int note_inside(Signature *self, PyObject *array, bool *is_known) {
    Seen *seen = seen_find(&self->seen, array);
    *is_known = seen != NULL;
    if (seen != NULL)
        return add_again(self, seen);
    self->inside++;
    return seen_add(&self->seen, array, PyList_GET_SIZE(self->arrays), true);
}

static int add_array(Signature *self, PyObject *array) {
    if (!self->values)
        return add_borrowed(self, self->nodes ? (PyObject *)((Array *)array)->node : (PyObject *)Array_Type);
    if (self->in_place) {
        bool is_known;
        if (note_inside(self, array, &is_known) < 0)
            return -1;
        if (is_known)
            return 0;
    } else {
        self->outside++;
    }
    Node *node = ((Array *)array)->node;
    if (PyList_Append(self->arrays, array) < 0)
        return -1;
    int status = self->shapes ? add_borrowed(self, node->shape) : add(self, PyLong_FromSsize_t(PyTuple_GET_SIZE(node->shape)));
    return status < 0 ? -1 : add_borrowed(self, node->dtype);
}

/* NumPy arrays are inputs if they are arguments; elsewhere their contents are part of the key. */
static int add_ndarray(Signature *self, PyObject *ndarray) {
    if (self->values && !self->in_place) {
        PyObject *made = PyObject_CallOneArg((PyObject *)Array_Type, ndarray);
        int status = made == NULL ? -1 : add_array(self, made);
        Py_XDECREF(made);
        return status;
    }
    if (add_type(self, ndarray) < 0 || add(self, PyObject_GetAttrString(ndarray, "shape")) < 0 ||
        add(self, PyObject_GetAttrString(ndarray, "dtype")) < 0)
        return -1;
    return add(self, PyObject_CallMethod(ndarray, "tobytes", NULL));
}

/* ---- constants: by type and value, never by an equality that users define ---- */

static int add_bits(Signature *self, double value) {
    unsigned long long bits;
    memcpy(&bits, &value, sizeof bits);
    return add(self, PyLong_FromUnsignedLongLong(bits));
}

static int add_members(Signature *self, PyObject *object, const char *const *names) {
    for (; *names != NULL; names++) {
        PyObject *member = PyObject_GetAttrString(object, *names);
        int status = member == NULL ? -1 : add_tree(self, member);
        Py_XDECREF(member);
        if (status < 0)
            return -1;
    }
    return 0;
}

static int add_elements(Signature *self, PyObject *set) {
    if (add(self, PyLong_FromSsize_t(PySet_GET_SIZE(set))) < 0)
        return -1;
    PyObject *items = PySequence_List(set); /* in the order in which the function would iterate over them */
    int status = items == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(items); i++)
        status = add_tree(self, PyList_GET_ITEM(items, i));
    Py_XDECREF(items);
    return status;
}

static int add_enum(Signature *self, PyObject *member) {
    PyObject *name = PyObject_GetAttrString(member, "_name_");
    if (name != NULL && PyUnicode_CheckExact(name))
        return add(self, name);
    Py_XDECREF(name);
    return name == NULL ? -1 : add(self, PyLong_FromVoidPtr(member)); /* enum members are singletons */
}

static int add_constant(Signature *self, PyObject *object) {
    static const char *const of_slices[] = {"start", "stop", "step", NULL};
    if (add_type(self, object) < 0)
        return -1;
    if (PyUnicode_CheckExact(object) || PyLong_CheckExact(object) || object == Py_None || PyBool_Check(object))
        return add_borrowed(self, object);
    if (callbacks.enum_metatype != NULL && PyObject_TypeCheck(Py_TYPE(object), (PyTypeObject *)callbacks.enum_metatype))
        return add_enum(self, object);
    if (strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) == 0 && PyObject_HasAttrString(object, "tobytes"))
        return add(self, PyObject_CallMethod(object, "tobytes", NULL));
    if (PyFloat_Check(object)) /* by its bits: NaN must equal itself, and 0.0 is not -0.0 */
        return add_bits(self, PyFloat_AS_DOUBLE(object));
    if (PyComplex_Check(object)) {
        Py_complex value = ((PyComplexObject *)object)->cval;
        return add_bits(self, value.real) < 0 ? -1 : add_bits(self, value.imag);
    }
    if (PyLong_Check(object))
        return add(self, PyNumber_Index(object));
    if (PyUnicode_Check(object))
        return add(self, PyUnicode_FromObject(object));
    if (PyBytes_Check(object))
        return add(self, PyBytes_FromStringAndSize(PyBytes_AS_STRING(object), PyBytes_GET_SIZE(object)));
    if (PySlice_Check(object) || PyRange_Check(object))
        return add_members(self, object, of_slices);
    if (PyFrozenSet_Check(object))
        return add_elements(self, object);
    return add_borrowed(self, object); /* types, functions, dtypes: their equality is not user-defined */
}

/* ---- containers and objects ---- */

static int add_items(Signature *self, PyObject *sequence) {
    PyObject *steady = ingot_steady_sequence(sequence);
    int status = steady == NULL || add_type(self, sequence) < 0 ? -1 : 0;
    if (status == 0)
        status = add(self, PyLong_FromSsize_t(PySequence_Fast_GET_SIZE(steady)));
    for (Py_ssize_t i = 0; status == 0 && i < PySequence_Fast_GET_SIZE(steady); i++) {
        PyObject *item = Py_NewRef(PySequence_Fast_GET_ITEM(steady, i));
        status = add_tree(self, item);
        Py_DECREF(item);
    }
    Py_XDECREF(steady);
    return status;
}

static int add_dict_key(Signature *self, PyObject *key) {
    if (PyTuple_Check(key)) {
        int status = add_type(self, key) < 0 ? -1 : add(self, PyLong_FromSsize_t(PyTuple_GET_SIZE(key)));
        for (Py_ssize_t i = 0; status == 0 && i < PyTuple_GET_SIZE(key); i++)
            status = add_dict_key(self, PyTuple_GET_ITEM(key, i));
        return status;
    }
    if (kind_of(key) == KIND_CONSTANT)
        return add_constant(self, key);
    return self->lenient ? add_identity(self, key) : refuse(key);
}

static int add_dict_keys(Signature *self, PyObject *keys) {
    bool is_plain = true;
    for (Py_ssize_t i = 0; is_plain && i < PyTuple_GET_SIZE(keys); i++)
        is_plain = PyUnicode_CheckExact(PyTuple_GET_ITEM(keys, i));
    if (is_plain)
        return add_borrowed(self, keys);
    int status = add(self, PyLong_FromSsize_t(PyTuple_GET_SIZE(keys)));
    for (Py_ssize_t i = 0; status == 0 && i < PyTuple_GET_SIZE(keys); i++)
        status = add_dict_key(self, PyTuple_GET_ITEM(keys, i));
    return status;
}

static int add_dict(Signature *self, PyObject *dict) {
    if (add_type(self, dict) < 0)
        return -1;
    PyObject *keys = PyODict_Check(dict) ? PySequence_List(dict) : PyDict_Keys(dict); /* an OrderedDict has its own order */
    PyObject *frozen = keys == NULL ? NULL : PyList_AsTuple(keys);
    Py_XDECREF(keys);
    if (frozen == NULL)
        return -1;
    int status = add_dict_keys(self, frozen);
    for (Py_ssize_t i = 0; status == 0 && i < PyTuple_GET_SIZE(frozen); i++) {
        PyObject *item = ingot_dict_get(dict, PyTuple_GET_ITEM(frozen, i));
        if (item == NULL && !PyErr_Occurred())
            PyErr_SetString(PyExc_RuntimeError, "[compile] a dict changed while a compiled function read it.");
        status = item == NULL ? -1 : add_tree(self, item);
        Py_XDECREF(item);
    }
    Py_DECREF(frozen);
    return status;
}

static int add_attribute(Signature *self, PyObject *name, PyObject *value) {
    switch (kind_of(value)) {
    case KIND_ARRAY:
    case KIND_SEQUENCE:
    case KIND_DICT:
    case KIND_OBJECT:
    case KIND_METHOD:
    case KIND_PARTIAL:
        return add_borrowed(self, name) < 0 ? -1 : add_tree(self, value);
    default:
        return 0; /* if it is read, a guard compares it */
    }
}

static int add_slots(Signature *self, PyObject *object) {
    PyObject *names = slot_names(Py_TYPE(object));
    int status = names == NULL ? -1 : 0;
    for (Py_ssize_t i = 0; status == 0 && i < PyList_GET_SIZE(names); i++) {
        PyObject *value = PyObject_GenericGetAttr(object, PyList_GET_ITEM(names, i));
        if (value != NULL)
            status = add_attribute(self, PyList_GET_ITEM(names, i), value);
        else if (PyErr_ExceptionMatches(PyExc_AttributeError))
            PyErr_Clear(); /* an empty slot */
        else
            status = -1;
        Py_XDECREF(value);
    }
    Py_XDECREF(names);
    return status;
}

static int add_attributes(Signature *self, PyObject *object) {
    PyObject *own = instance_dict(object), *dict = own == NULL ? NULL : ingot_steady_dict(own), *name, *value;
    Py_ssize_t position = 0;
    int status = own != NULL && dict == NULL ? -1 : 0;
    while (status == 0 && dict != NULL && PyDict_Next(dict, &position, &name, &value)) {
        Py_INCREF(name);
        Py_INCREF(value);
        status = add_attribute(self, name, value);
        Py_DECREF(name);
        Py_DECREF(value);
    }
    Py_XDECREF(dict);
    Py_XDECREF(own);
    if (status == 0)
        status = add_slots(self, object);
    return status < 0 ? -1 : add_borrowed(self, end_mark);
}

/* For guards: objects, and the items of subclasses of dict and list, because hooks miss some reads of them (`get`). */
static int add_identity_and_items(Signature *self, PyObject *object) {
    bool is_dict = PyDict_Check(object), has_items = is_dict || PyList_Check(object) || PyTuple_Check(object);
    int identified = add_identity(self, object);
    if (identified < 0 || !has_items || is_tree_type(Py_TYPE(object)) || seen_find(&self->seen, object) != NULL)
        return identified;
    bool lenient = self->lenient;
    self->lenient = true;
    int status = seen_add(&self->seen, object, -1, true);
    if (status == 0)
        status = is_dict ? add_dict(self, object) : add_items(self, object);
    self->lenient = lenient;
    return status;
}

/* An instance with attributes, which may also be a dict or a list. */
static int add_object(Signature *self, PyObject *object) {
    if (self->by_identity)
        return add_identity_and_items(self, object);
    Seen *seen = seen_find(&self->seen, object);
    if (seen != NULL)
        return add_again(self, seen);
    bool is_dict = PyDict_Check(object), is_sequence = PyList_Check(object) || PyTuple_Check(object);
    if (!self->lenient && !self->any_object && !is_dict && !is_sequence && !is_tree_type(Py_TYPE(object)))
        return refuse(object);
    if (self->objects == NULL && (self->objects = PyList_New(0)) == NULL)
        return -1;
    if (PyList_Append(self->objects, object) < 0 || seen_add(&self->seen, object, -1, true) < 0)
        return -1;
    bool in_place = self->in_place, lenient = self->lenient;
    self->in_place = self->lenient = true;
    int status = is_dict ? add_dict(self, object) : is_sequence ? add_items(self, object) : add_type(self, object);
    if (status == 0)
        status = add_attributes(self, object);
    self->in_place = in_place;
    self->lenient = lenient;
    return status;
}

static int add_container(Signature *self, PyObject *container) {
    if (!PyTuple_CheckExact(container) && has_attributes(container))
        return add_object(self, container);
    if (PyTuple_Check(container))
        return add_items(self, container);
    Seen *seen = seen_find(&self->seen, container);
    if (seen != NULL && seen->is_open && !self->in_place) {
        PyErr_Format(PyExc_ValueError, "[compile] a %s in the arguments contains itself: pass a tree without cycles.",
                     Py_TYPE(container)->tp_name);
        return -1;
    }
    if (seen != NULL) {
        self->shares_containers |= self->in_place && !seen->in_place;
        return add_again(self, seen);
    }
    if (seen_add(&self->seen, container, -1, self->in_place) < 0)
        return -1;
    int status = PyList_Check(container) ? add_items(self, container) : add_dict(self, container);
    seen_close(&self->seen, container);
    return status;
}

static int add_receiver(Signature *self, PyObject *object) {
    bool any_object = self->any_object;
    self->any_object = true;
    int status = add_tree(self, object);
    self->any_object = any_object;
    return status;
}

static int add_method(Signature *self, PyObject *method) {
    if (add_type(self, method) < 0 || add_tree(self, PyMethod_GET_FUNCTION(method)) < 0)
        return -1;
    return add_receiver(self, PyMethod_GET_SELF(method));
}

static int add_partial(Signature *self, PyObject *object) {
    static const char *const names[] = {"func", "args", "keywords", NULL};
    return add_type(self, object) < 0 ? -1 : add_members(self, object, names);
}

/* Guards compare the contents of deques and the like; calls refuse them. */
static int add_foreign(Signature *self, PyObject *object) {
    PyObject *contents = self->by_identity ? contents_of(object) : NULL;
    if (contents == NULL && (PyErr_Occurred() || !self->lenient))
        return PyErr_Occurred() ? -1 : refuse(object);
    int status = add_type(self, object);
    if (status == 0 && contents == NULL)
        status = add_borrowed(self, foreign_mark);
    else if (status == 0 && PyBytes_Check(contents))
        status = add_constant(self, contents);
    else if (status == 0)
        status = PyDict_Check(contents) ? add_dict(self, contents) : add_items(self, contents);
    Py_XDECREF(contents);
    return status;
}

static int add_other(Signature *self, PyObject *object) {
    switch (kind_of(object)) {
    case KIND_OBJECT:
        return add_object(self, object);
    case KIND_METHOD:
        return add_method(self, object);
    case KIND_PARTIAL:
        return add_partial(self, object);
    case KIND_CONSTANT:
        return add_constant(self, object);
    case KIND_NDARRAY:
        return add_ndarray(self, object);
    case KIND_SET:
        if (!self->lenient && !self->by_identity)
            return refuse(object);
        return add_type(self, object) < 0 ? -1 : add_elements(self, object);
    default:
        return add_foreign(self, object);
    }
}

static int add_tree(Signature *self, PyObject *tree) {
    if (is_array(tree))
        return add_array(self, tree);
    if (PyLong_CheckExact(tree) || PyUnicode_CheckExact(tree) || tree == Py_None)
        return add_type(self, tree) < 0 ? -1 : add_borrowed(self, tree);
    if (PyFloat_CheckExact(tree))
        return add_type(self, tree) < 0 ? -1 : add_bits(self, PyFloat_AS_DOUBLE(tree));
    if (Py_EnterRecursiveCall(" while reading the arguments of a compiled function") != 0) {
        if (PyErr_ExceptionMatches(PyExc_RecursionError))
            PyErr_SetString(PyExc_ValueError,
                            "[compile] a container contains itself, or is nested deeper than Python can follow.");
        return -1;
    }
    bool is_container = PyList_Check(tree) || PyTuple_Check(tree) || PyDict_Check(tree);
    int status = is_container ? add_container(self, tree) : add_other(self, tree);
    Py_LeaveRecursiveCall();
    return status;
}

/* ---- whole signatures ---- */

bool begin_signature(Signature *self, bool shapes, bool values) {
    self->key = PyList_New(0);
    self->arrays = PyList_New(0);
    self->objects = NULL;
    seen_begin(&self->seen);
    self->shapes = shapes;
    self->values = values;
    self->in_place = self->lenient = self->any_object = self->by_identity = self->nodes = false;
    self->shares_containers = false;
    self->outside = self->inside = 0;
    return self->key != NULL && self->arrays != NULL;
}

void end_signature(Signature *self) {
    Py_XDECREF(self->key);
    Py_XDECREF(self->arrays);
    Py_XDECREF(self->objects);
    seen_end(&self->seen);
}

static int explained(int status) {
    if (status < 0 && PyErr_ExceptionMatches(PyExc_RecursionError))
        PyErr_SetString(PyExc_ValueError,
                        "[compile] the arguments contain themselves, or are nested deeper than Python can follow.");
    return status;
}

int add_arguments(Signature *self, PyObject *arguments, bool has_receiver) {
    Py_ssize_t count = PyTuple_GET_SIZE(arguments);
    int status = add(self, PyLong_FromSsize_t(count));
    for (Py_ssize_t i = 0; status == 0 && i < count; i++) {
        PyObject *argument = PyTuple_GET_ITEM(arguments, i);
        status = has_receiver && i == 0 ? add_receiver(self, argument) : add_tree(self, argument);
    }
    return explained(status);
}

int add_keywords(Signature *self, PyObject *keywords) {
    return explained(add_dict(self, keywords));
}

int add_captured(Signature *self, PyObject *tree, bool any_object) {
    self->in_place = true;
    int status = any_object ? add_receiver(self, tree) : add_tree(self, tree);
    self->in_place = false;
    return explained(status);
}

/* Adds which arrays of the arguments are also in objects, because updating one updates the other. */
static int add_sharing(Signature *self) {
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(self->arrays); i++) {
        PyObject *array = PyList_GET_ITEM(self->arrays, i);
        Seen *seen = seen_find(&self->seen, array);
        Py_ssize_t first = seen == NULL ? i : seen->position;
        if (self->shares_containers) /* then arrays of arguments are also inside objects, where they have no position */
            for (first = 0; PyList_GET_ITEM(self->arrays, first) != array;)
                first++;
        if (first != i && (add(self, PyLong_FromSsize_t(i)) < 0 || add(self, PyLong_FromSsize_t(first)) < 0))
            return -1;
    }
    return 0;
}

PyObject *finished_key(Signature *self) {
    bool may_share = self->shares_containers || (self->outside > 0 && self->inside > 0);
    return may_share && add_sharing(self) < 0 ? NULL : PyList_AsTuple(self->key);
}

/* structure(tree) -> the key of a tree, regardless of its arrays */
static PyObject *structure(PyObject *Py_UNUSED(module), PyObject *tree) {
    Signature self;
    PyObject *key = NULL;
    bool begun = begin_signature(&self, false, false);
    self.lenient = true;
    if (begun && add_captured(&self, tree, false) == 0)
        key = finished_key(&self);
    end_signature(&self);
    return key;
}

LOCKS_METHOD(structure)

static PyMethodDef functions[] = {
    {"structure", LOCKED(structure), METH_O, "structure(tree) -> the key of a tree, regardless of its arrays"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_signature(PyObject *module) {
    again_mark = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    end_mark = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    foreign_mark = PyObject_CallNoArgs((PyObject *)&PyBaseObject_Type);
    ForeignArgument = PyErr_NewExceptionWithDoc(
        "ingot._native.ForeignArgument", "An argument that is neither array, tree nor constant.", PyExc_ValueError, NULL);
    if (again_mark == NULL || end_mark == NULL || foreign_mark == NULL || ForeignArgument == NULL ||
        PyModule_AddObjectRef(module, "ForeignArgument", ForeignArgument) < 0)
        return -1;
    return PyModule_AddFunctions(module, functions);
}
