/* Classifies Python objects for compiled functions. */
#include "numpy_api.h"
#include "calls/structure.h"

static PyObject *constant_types;  /* set of further types whose instances are constants */
static PyObject *contents_makers; /* dict: types of C whose instances hold others -> what lists the contents of one */
static destructor python_dealloc; /* that of classes written in Python, whose instances have no state in C */

static bool has_python_layout(PyTypeObject *type) {
    while (type->tp_flags & Py_TPFLAGS_HEAPTYPE) {
        if (type->tp_dealloc != python_dealloc)
            return false;
        type = type->tp_base;
    }
    return type == &PyBaseObject_Type || type == &PyDict_Type || type == &PyList_Type || type == &PyTuple_Type;
}

static bool is_python_instance(PyTypeObject *type) {
    return (type->tp_flags & Py_TPFLAGS_HEAPTYPE) && has_python_layout(type);
}

bool has_attributes(PyObject *object) {
    PyTypeObject *type = Py_TYPE(object);
    if (PyDict_Check(object) || PyList_Check(object) || PyTuple_Check(object))
        return type->tp_dictoffset != 0 && is_python_instance(type);
    return kind_of(object) == KIND_OBJECT;
}

PyObject *ingot_class_attribute(PyTypeObject *type, PyObject *name) {
#ifdef Py_GIL_DISABLED
    return _PyType_LookupRef(type, name);
#else
    return Py_XNewRef(_PyType_Lookup(type, name));
#endif
}

static bool has_class_attribute(PyTypeObject *type, PyObject **name, const char *text) {
    if (*name == NULL && (*name = PyUnicode_InternFromString(text)) == NULL) {
        PyErr_Clear();
        return false;
    }
    PyObject *found = ingot_class_attribute(type, *name);
    Py_XDECREF(found);
    return found != NULL;
}

bool is_tree_type(PyTypeObject *type) {
    static PyObject *fields, *tree;
    return has_class_attribute(type, &fields, "__dataclass_fields__") || has_class_attribute(type, &tree, "_is_tree");
}

PyObject *instance_dict(PyObject *object) {
    if (Py_TYPE(object)->tp_dictoffset == 0)
        return NULL;
#ifdef Py_GIL_DISABLED
    PyObject *dict = PyObject_GenericGetDict(object, NULL); /* another thread may be replacing it */
    if (dict == NULL)
        PyErr_Clear();
    return dict;
#else
    PyObject **dict = _PyObject_GetDictPtr(object);
    return dict == NULL ? NULL : Py_XNewRef(*dict);
#endif
}

PyObject *slot_names(PyTypeObject *type) {
    static PyObject *name, *finder;
    if (name == NULL && (name = PyUnicode_InternFromString("__slotnames__")) == NULL)
        return NULL;
    PyObject *known = ingot_dict_get(type->tp_dict, name);
    if (known != NULL && PyList_Check(known))
        return known;
    Py_XDECREF(known);
    if (PyErr_Occurred())
        return NULL;
    if (finder == NULL) {
        PyObject *module = PyImport_ImportModule("copyreg");
        finder = module == NULL ? NULL : PyObject_GetAttrString(module, "_slotnames");
        Py_XDECREF(module);
        if (finder == NULL)
            return NULL;
    }
    return PyObject_CallOneArg(finder, (PyObject *)type);
}

/* Numbers and strings: constants, unless a class of the user's adds attributes. */
static Kind kind_of_value(PyObject *object) {
    PyObject *attributes = (Py_TYPE(object)->tp_flags & Py_TPFLAGS_HEAPTYPE) ? instance_dict(object) : NULL;
    bool has_some = attributes != NULL && PyDict_GET_SIZE(attributes) > 0;
    Py_XDECREF(attributes);
    return has_some ? KIND_FOREIGN : KIND_CONSTANT;
}

/* Functions of C: those bound to an object that can change are not constants. */
static Kind kind_of_builtin(PyObject *function) {
    PyObject *owner = PyCFunction_GET_SELF(function);
    if (owner == NULL || PyModule_Check(owner) || PyType_Check(owner))
        return KIND_CONSTANT;
    return kind_of(owner) == KIND_CONSTANT ? KIND_CONSTANT : KIND_FOREIGN;
}

static bool is_numpy_number(PyObject *object) {
    return strncmp(Py_TYPE(object)->tp_name, "numpy.", 6) == 0 && PyObject_HasAttrString(object, "tobytes");
}

/* Loggers hold no numbers that a result could depend on. They are known by their names, because importing `logging` to
 * register two types would take a tenth of the first call of a small function. */
static bool is_logger(PyTypeObject *type) {
    if (strcmp(type->tp_name, "Logger") != 0 && strcmp(type->tp_name, "RootLogger") != 0)
        return false;
    PyObject *module = PyObject_GetAttrString((PyObject *)type, "__module__");
    bool found = module != NULL && PyUnicode_Check(module) && PyUnicode_CompareWithASCIIString(module, "logging") == 0;
    if (module == NULL)
        PyErr_Clear();
    Py_XDECREF(module);
    return found;
}

static bool is_registered(PyTypeObject *type) {
    int found = constant_types == NULL ? 0 : PySet_Contains(constant_types, (PyObject *)type);
    if (found < 0)
        PyErr_Clear(); /* a class whose metaclass is not hashable */
    return found == 1 || is_logger(type);
}

static bool is_instance_of(PyObject *object, PyObject *type) {
    return type != NULL && PyObject_TypeCheck(object, (PyTypeObject *)type);
}

Kind kind_of(PyObject *object) {
    if (is_array(object))
        return KIND_ARRAY;
    if (PyList_Check(object) || PyTuple_Check(object))
        return KIND_SEQUENCE;
    if (PyDict_Check(object))
        return KIND_DICT;
    if (object == Py_None || PyLong_CheckExact(object) || PyFloat_CheckExact(object) || PyUnicode_CheckExact(object) ||
        PyBool_Check(object) || PyFunction_Check(object) || PyType_Check(object))
        return KIND_CONSTANT;
    PyTypeObject *type = Py_TYPE(object);
    if (is_registered(type) || is_instance_of((PyObject *)type, callbacks.enum_metatype))
        return KIND_CONSTANT;
    if (PyMethod_Check(object))
        return KIND_METHOD;
    if (is_instance_of(object, callbacks.partial_type))
        return KIND_PARTIAL;
    if (PyCFunction_Check(object))
        return kind_of_builtin(object);
    if (is_ndarray(object))
        return KIND_NDARRAY;
    if (is_numpy_number(object))
        return KIND_CONSTANT;
    if (PyLong_Check(object) || PyFloat_Check(object) || PyComplex_Check(object) || PyUnicode_Check(object) ||
        PyBytes_Check(object))
        return kind_of_value(object);
    if (PyFrozenSet_CheckExact(object))
        return KIND_CONSTANT;
    if (PySet_CheckExact(object))
        return KIND_SET;
    if (!is_python_instance(type) || PyIter_Check(object))
        return KIND_FOREIGN;
    return KIND_OBJECT;
}

PyObject *contents_of(PyObject *object) {
    PyObject *maker = contents_makers == NULL ? NULL : ingot_dict_get(contents_makers, (PyObject *)Py_TYPE(object));
    PyObject *contents = maker == NULL ? NULL : PyObject_CallOneArg(maker, object);
    Py_XDECREF(maker);
    return contents;
}

/* ---- seen ---- */

void seen_begin(SeenSet *set) {
    set->table = NULL;
    set->count = 0;
    set->capacity = SEEN_INLINE;
}

void seen_end(SeenSet *set) {
    PyMem_Free(set->table);
}

static Seen *seen_slot(Seen *table, Py_ssize_t capacity, void *pointer) {
    size_t mask = (size_t)capacity - 1;
    size_t hash = ((size_t)pointer >> 4) * 0x9E3779B97F4A7C15u;
    for (size_t i = hash >> 20;; i++) {
        Seen *slot = &table[i & mask];
        if (slot->pointer == pointer || slot->pointer == NULL)
            return slot;
    }
}

Seen *seen_find(SeenSet *set, void *pointer) {
    if (set->table != NULL) {
        Seen *slot = seen_slot(set->table, set->capacity, pointer);
        return slot->pointer == NULL ? NULL : slot;
    }
    for (Py_ssize_t i = 0; i < set->count; i++) {
        if (set->inline_table[i].pointer == pointer)
            return &set->inline_table[i];
    }
    return NULL;
}

static int seen_grow(SeenSet *set) {
    Py_ssize_t capacity = set->capacity * 4;
    Seen *table = PyMem_Calloc((size_t)capacity, sizeof *table);
    if (table == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    const Seen *old = set->table == NULL ? set->inline_table : set->table;
    for (Py_ssize_t i = 0; i < set->capacity; i++) {
        if (old[i].pointer != NULL)
            *seen_slot(table, capacity, old[i].pointer) = old[i];
    }
    PyMem_Free(set->table);
    set->table = table;
    set->capacity = capacity;
    return 0;
}

int seen_add(SeenSet *set, void *pointer, Py_ssize_t position, bool in_place) {
    bool is_full = set->table == NULL ? set->count == SEEN_INLINE : set->count * 2 >= set->capacity;
    if (is_full && seen_grow(set) < 0)
        return -1;
    Seen *slot = set->table == NULL ? &set->inline_table[set->count] : seen_slot(set->table, set->capacity, pointer);
    *slot = (Seen){pointer, set->count++, position, true, in_place};
    return 0;
}

void seen_close(SeenSet *set, void *pointer) {
    Seen *found = seen_find(set, pointer);
    if (found != NULL)
        found->is_open = false;
}

/* ---- for Python ---- */

static PyObject *kind_function(PyObject *Py_UNUSED(module), PyObject *object) {
    return PyLong_FromLong(kind_of(object));
}

static PyObject *has_attributes_function(PyObject *Py_UNUSED(module), PyObject *object) {
    return PyBool_FromLong(has_attributes(object));
}

static PyObject *is_tree_function(PyObject *Py_UNUSED(module), PyObject *object) {
    return PyBool_FromLong(is_tree_type(Py_TYPE(object)));
}

static PyObject *instance_dict_function(PyObject *Py_UNUSED(module), PyObject *object) {
    PyObject *dict = Py_TYPE(object)->tp_dictoffset == 0 ? NULL : PyObject_GenericGetDict(object, NULL);
    if (dict == NULL && PyErr_Occurred())
        return NULL;
    return dict == NULL ? Py_NewRef(Py_None) : dict;
}

static PyObject *register_constant_type(PyObject *Py_UNUSED(module), PyObject *type) {
    if (!PyType_Check(type)) {
        PyErr_SetString(PyExc_TypeError, "register_constant_type takes a type.");
        return NULL;
    }
    if (constant_types == NULL && (constant_types = PySet_New(NULL)) == NULL)
        return NULL;
    return PySet_Add(constant_types, type) < 0 ? NULL : Py_NewRef(type);
}

static PyObject *register_contents(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *type, *maker;
    if (!PyArg_ParseTuple(arguments, "O!O:register_contents", &PyType_Type, &type, &maker))
        return NULL;
    if (contents_makers == NULL && (contents_makers = PyDict_New()) == NULL)
        return NULL;
    return PyDict_SetItem(contents_makers, type, maker) < 0 ? NULL : Py_NewRef(Py_None);
}

LOCKS_METHOD(kind_function)
LOCKS_METHOD(has_attributes_function)
LOCKS_METHOD(is_tree_function)
LOCKS_METHOD(instance_dict_function)
LOCKS_METHOD(register_constant_type)
LOCKS_METHOD(register_contents)

static PyMethodDef functions[] = {
    {"kind", LOCKED(kind_function), METH_O, "kind(object) -> int: how compiled functions classify it, a member of Kind"},
    {"has_attributes", LOCKED(has_attributes_function), METH_O, "Whether an instance has mutable attributes."},
    {"is_tree_instance", LOCKED(is_tree_function), METH_O, "Whether instances of its class are trees."},
    {"instance_dict", LOCKED(instance_dict_function), METH_O, "The dict with an instance's attributes, or None."},
    {"register_constant_type", LOCKED(register_constant_type), METH_O,
     "Instances of exactly this type are constants of compiled functions; returns the type."},
    {"register_contents", LOCKED(register_contents), METH_VARARGS,
     "register_contents(type, maker): guards compare `maker(instance)`, a list, a dict or bytes."},
    {NULL, NULL, 0, NULL},
};

int ingot_add_structure(PyObject *module) {
    PyObject *plain = PyObject_CallFunction((PyObject *)&PyType_Type, "s(){}", "Plain");
    if (plain == NULL)
        return -1;
    python_dealloc = ((PyTypeObject *)plain)->tp_dealloc;
    Py_DECREF(plain);
    return PyModule_AddFunctions(module, functions);
}
