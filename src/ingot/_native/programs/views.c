/* Views of the values of a running program: results that are parts of other arrays, and the operands of host steps. */
#include "programs/program.h"

#include "memory/buffer.h"
#include "numpy_api.h"

/* Reads the numbers of a view: its offset, its lengths, then its strides. */
static int read_numbers(PyObject *lengths, PyObject *strides, int64_t *to) {
    for (int i = 0; i < 2; i++) {
        PyObject *numbers = i == 0 ? lengths : strides;
        for (Py_ssize_t axis = 0; axis < PyTuple_GET_SIZE(numbers); axis++) {
            *to = PyLong_AsLongLong(PyTuple_GET_ITEM(numbers, axis));
            if (*to++ == -1 && PyErr_Occurred())
                return -1;
        }
    }
    return 0;
}

static int read_view(Program *self, PyObject *tuple, View *view) {
    PyObject *dtype, *lengths, *strides;
    long long offset;
    if (!PyTuple_Check(tuple) || !PyArg_ParseTuple(tuple, "iO!LO!O!", &view->slot, &PyArrayDescr_Type, &dtype, &offset,
                                                   &PyTuple_Type, &lengths, &PyTuple_Type, &strides))
        return -1;
    Py_ssize_t axes = PyTuple_GET_SIZE(lengths);
    if (view->slot < 0 || view->slot >= self->slot_count || axes > NPY_MAXDIMS || axes != PyTuple_GET_SIZE(strides)) {
        PyErr_Format(PyExc_ValueError, "a program has no view %R.", tuple);
        return -1;
    }
    view->axes = (int)axes;
    view->first = self->view_number_count;
    size_t count = (size_t)(view->first + 1 + 2 * axes);
    int64_t *numbers = PyMem_Realloc(self->view_numbers, count * sizeof *numbers);
    if (numbers == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    self->view_numbers = numbers;
    self->view_number_count = (Py_ssize_t)count;
    numbers[view->first] = offset;
    view->dtype = Py_NewRef(dtype);
    return read_numbers(lengths, strides, numbers + view->first + 1);
}

int ingot_read_views(Program *self, PyObject *views) {
    Py_ssize_t count = PyList_GET_SIZE(views);
    self->views = PyMem_Calloc((size_t)count + 1, sizeof *self->views);
    if (self->views == NULL) {
        PyErr_NoMemory();
        return -1;
    }
    for (Py_ssize_t i = 0; i < count; i++) {
        self->view_count = i + 1;
        if (read_view(self, PyList_GET_ITEM(views, i), &self->views[i]) < 0)
            return -1;
    }
    return 0;
}

void ingot_release_views(Program *self) {
    for (Py_ssize_t i = 0; i < self->view_count; i++)
        Py_XDECREF(self->views[i].dtype);
    PyMem_Free(self->views);
    PyMem_Free(self->view_numbers);
}

PyObject *ingot_result_shapes(const Program *self) {
    if (self->result_count < 0)
        return Py_NewRef(self->output_shapes);
    PyObject *shapes = PyTuple_New(self->result_count);
    const View *view = self->views + self->view_count - self->result_count;
    for (Py_ssize_t i = 0; shapes != NULL && i < self->result_count; i++, view++) {
        const npy_intp *lengths = (const npy_intp *)(const void *)(self->view_numbers + view->first + 1);
        PyObject *shape = PyArray_IntTupleFromIntp(view->axes, lengths);
        if (shape == NULL)
            Py_CLEAR(shapes);
        else
            PyTuple_SET_ITEM(shapes, i, shape);
    }
    return shapes;
}

/* Whether a view is all of an ndarray, as it is. */
static bool is_whole(PyArrayObject *owner, const View *view, const int64_t *numbers) {
    if (!PyArray_CheckExact(owner) || numbers[0] != 0 || PyArray_NDIM(owner) != view->axes ||
        !PyArray_EquivTypes(PyArray_DESCR(owner), (PyArray_Descr *)view->dtype))
        return false;
    for (int axis = 0; axis < view->axes; axis++) {
        int64_t length = numbers[1 + axis], stride = numbers[1 + view->axes + axis];
        if (PyArray_DIM(owner, axis) != length || (length > 1 && PyArray_STRIDE(owner, axis) != stride))
            return false;
    }
    return true;
}

/* A view of a slot without memory: an array without elements, if nothing is wrong. */
static PyObject *make_empty(const View *view, int64_t *numbers) {
    PyArray_Descr *dtype = (PyArray_Descr *)Py_NewRef(view->dtype);
    npy_intp *lengths = (npy_intp *)(void *)(numbers + 1);
    if (PyArray_MultiplyList(lengths, view->axes) == 0)
        return PyArray_NewFromDescr(&PyArray_Type, dtype, view->axes, lengths, NULL, NULL, 0, NULL);
    Py_DECREF(dtype);
    return PyErr_Format(PyExc_RuntimeError, "slot %d of a program has no memory; this is a bug in ingot.", view->slot);
}

static PyObject *make_view(const Program *self, const View *view, PyObject *owners) {
    int64_t *numbers = self->view_numbers + view->first;
    PyObject *owner = PyList_GET_ITEM(owners, view->slot);
    bool is_buffer = ingot_is_buffer(owner);
    if (!is_buffer && !is_ndarray(owner))
        return make_empty(view, numbers);
    if (!is_buffer && is_whole(as_ndarray(owner), view, numbers))
        return Py_NewRef(owner);
    char *data = is_buffer ? ingot_buffer_data(owner) : ndarray_data(owner);
    npy_intp *lengths = (npy_intp *)(void *)(numbers + 1);
    PyObject *made = PyArray_NewFromDescr(&PyArray_Type, (PyArray_Descr *)Py_NewRef(view->dtype), view->axes, lengths,
                                          lengths + view->axes, data + numbers[0], is_buffer ? NPY_ARRAY_WRITEABLE : 0, NULL);
    if (made != NULL && PyArray_SetBaseObject(as_ndarray(made), Py_NewRef(owner)) < 0)
        Py_CLEAR(made);
    return made;
}

PyObject *ingot_make_views(const Program *self, Py_ssize_t first, Py_ssize_t count, PyObject *owners) {
    PyObject *made = PyTuple_New(count);
    for (Py_ssize_t i = 0; made != NULL && i < count; i++) {
        PyObject *view = make_view(self, &self->views[first + i], owners);
        if (view == NULL)
            Py_CLEAR(made);
        else
            PyTuple_SET_ITEM(made, i, view);
    }
    return made;
}
