/* Finds the user's line: that of the innermost frame outside the package's own files.
 *
 * Every node that an op makes records it, so it must cost next to nothing: a code object and an instruction offset,
 * from which the line is computed on demand (Node.origin, graph/reporting/source.py). Usually the top frame is the
 * user's, because C functions have none. Needs the engine lock, like everything that makes nodes. */
#include "native.h"

/* Reads the interpreter's own frames where their layout is known: the public functions allocate a frame object per
 * call, which takes a third of the time of making a node. */
#if PY_VERSION_HEX < 0x030D0000
#define Py_BUILD_CORE_MODULE 1
#include <internal/pycore_frame.h>
#endif

static PyObject *package, *programs; /* the package's folder, and its subfolder whose files count as user code */

#define VERDICTS 64 /* a power of two */

/* Cache of which file names are the package's own, by address: all code objects of a file share one name object. */
static struct {
    PyObject *filename; /* owned, so that its address is not reused */
    bool own;
} verdicts[VERDICTS];

static bool begins_with(PyObject *text, PyObject *prefix) {
    return PyUnicode_Tailmatch(text, prefix, 0, PY_SSIZE_T_MAX, -1) == 1;
}

static bool is_own(PyObject *filename) {
    size_t slot = ((uintptr_t)filename >> 4) % VERDICTS;
    if (verdicts[slot].filename != filename) {
        bool own = begins_with(filename, package) && !begins_with(filename, programs);
        PyObject *old = verdicts[slot].filename;
        verdicts[slot].own = own;
        verdicts[slot].filename = Py_NewRef(filename);
        Py_XDECREF(old);
        return own;
    }
    return verdicts[slot].own;
}

#if PY_VERSION_HEX < 0x030D0000
PyCodeObject *ingot_user_code(int *instruction) {
    if (package == NULL)
        return NULL;
    for (_PyInterpreterFrame *frame = PyThreadState_Get()->cframe->current_frame; frame != NULL; frame = frame->previous) {
        if (_PyFrame_IsIncomplete(frame) || is_own(frame->f_code->co_filename))
            continue;
        *instruction = (int)(_PyInterpreterFrame_LASTI(frame) * sizeof(_Py_CODEUNIT));
        return (PyCodeObject *)Py_NewRef(frame->f_code);
    }
    return NULL;
}
#else
PyCodeObject *ingot_user_code(int *instruction) {
    PyFrameObject *frame = package == NULL ? NULL : PyThreadState_GetFrame(PyThreadState_Get());
    while (frame != NULL) {
        PyCodeObject *code = PyFrame_GetCode(frame);
        if (!is_own(code->co_filename)) {
            *instruction = PyFrame_GetLasti(frame);
            Py_DECREF(frame);
            return code;
        }
        Py_DECREF(code);
        Py_SETREF(frame, PyFrame_GetBack(frame));
    }
    return NULL;
}
#endif

static _Thread_local Node *line_of;

Node *ingot_line_of(void) {
    return line_of;
}

Node *ingot_take_line_of(Node *node) {
    Node *before = line_of;
    line_of = (Node *)Py_XNewRef(node);
    return before;
}

/* take_line_of(node or None) -> the previous one */
static PyObject *take_line_of(PyObject *Py_UNUSED(module), PyObject *argument) {
    Node *node = argument == Py_None ? NULL : as_node(argument);
    if (node == NULL && argument != Py_None)
        return NULL;
    Node *before = ingot_take_line_of(node);
    return before == NULL ? Py_NewRef(Py_None) : (PyObject *)before;
}

/* set_package(folder, programs) */
static PyObject *set_package(PyObject *Py_UNUSED(module), PyObject *arguments) {
    PyObject *folder, *exempt;
    if (!PyArg_ParseTuple(arguments, "UU:set_package", &folder, &exempt))
        return NULL;
    Py_XSETREF(package, Py_NewRef(folder));
    Py_XSETREF(programs, Py_NewRef(exempt));
    for (int i = 0; i < VERDICTS; i++)
        Py_CLEAR(verdicts[i].filename);
    Py_RETURN_NONE;
}

/* is_own_code(code) -> whether a code object comes from the package's own files */
static PyObject *is_own_code(PyObject *Py_UNUSED(module), PyObject *code) {
    if (!PyCode_Check(code)) {
        PyErr_Format(PyExc_TypeError, "is_own_code takes a code object, got %s.", Py_TYPE(code)->tp_name);
        return NULL;
    }
    return PyBool_FromLong(package != NULL && is_own(((PyCodeObject *)code)->co_filename));
}

LOCKS_METHOD(set_package)
LOCKS_METHOD(take_line_of)
LOCKS_METHOD(is_own_code)

static PyMethodDef functions[] = {
    {"set_package", LOCKED(set_package), METH_VARARGS,
     "set_package(folder, programs): files in the folder are not the user's, except for those that begin with programs"},
    {"take_line_of", LOCKED(take_line_of), METH_O,
     "take_line_of(node or None): new nodes of this thread have its line, not that of the running frame; returns the old one"},
    {"is_own_code", LOCKED(is_own_code), METH_O, "is_own_code(code) -> whether the code object is of the package's own files"},
    {NULL, NULL, 0, NULL},
};

int ingot_add_user_line(PyObject *module) {
    return PyModule_AddFunctions(module, functions);
}
