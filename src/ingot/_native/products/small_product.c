/* Small products of arrays of one layout, which evaluation finds in its cache (evaluate/dispatch.c). */
#include "numpy_api.h"
#include "products/product.h"

typedef struct {
    PyObject_HEAD
    Product product;
    int axes;
    npy_intp lengths[MAXIMUM_STACK_AXES + 2]; /* of the result */
} SmallProduct;

static PyTypeObject *SmallProduct_Type;

bool ingot_is_small_product(PyObject *object) {
    return Py_IS_TYPE(object, SmallProduct_Type);
}

/* Keeps the GIL: it takes less time than getting it back may. */
PyObject *ingot_run_small_product(PyObject *object, PyObject *left, PyObject *right) {
    SmallProduct *self = (SmallProduct *)object;
    PyArray_Descr *descr = PyArray_DESCR(as_ndarray(left));
    Py_INCREF(descr);
    PyObject *result = PyArray_NewFromDescr(&PyArray_Type, descr, self->axes, self->lengths, NULL, NULL, 0, NULL);
    Progress progress = {0};
    /* BLAS is column-major: it computes the transposed product */
    if (result != NULL &&
        !ingot_multiply(&self->product, ndarray_data(right), ndarray_data(left), ndarray_data(result), &progress))
        Py_CLEAR(result);
    return result;
}

/* SmallProduct(product, shape): the product as `multiply` takes it, and the shape of its result */
static PyObject *product_new(PyTypeObject *type, PyObject *arguments, PyObject *Py_UNUSED(keywords)) {
    PyObject *product, *shape;
    if (!PyArg_ParseTuple(arguments, "O!O!:SmallProduct", &PyTuple_Type, &product, &PyTuple_Type, &shape))
        return NULL;
    SmallProduct *self = (SmallProduct *)type->tp_alloc(type, 0);
    if (self == NULL)
        return NULL;
    self->axes = (int)PyTuple_GET_SIZE(shape);
    int status = ingot_read_product(product, &self->product);
    if (status == 0 && PyTuple_GET_SIZE(shape) > (Py_ssize_t)Py_ARRAY_LENGTH(self->lengths)) {
        PyErr_SetString(PyExc_ValueError, "a small product has a stack of few axes.");
        status = -1;
    }
    for (int axis = 0; axis < self->axes && status == 0; axis++) {
        self->lengths[axis] = PyNumber_AsSsize_t(PyTuple_GET_ITEM(shape, axis), PyExc_OverflowError);
        status = PyErr_Occurred() ? -1 : 0;
    }
    if (status < 0)
        Py_CLEAR(self);
    return (PyObject *)self;
}

static void product_dealloc(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    type->tp_free(self);
    Py_DECREF(type);
}

static PyType_Slot product_slots[] = {
    {Py_tp_new, product_new},
    {Py_tp_dealloc, product_dealloc},
    {Py_tp_doc, "A small product of arrays of one layout, by BLAS."},
    {0, NULL},
};

static PyType_Spec product_spec = {
    .name = "ingot._native.SmallProduct",
    .basicsize = sizeof(SmallProduct),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = product_slots,
};

int ingot_add_small_product(PyObject *module) {
    SmallProduct_Type = (PyTypeObject *)PyType_FromSpec(&product_spec);
    if (SmallProduct_Type == NULL)
        return -1;
    return PyModule_AddObjectRef(module, "SmallProduct", (PyObject *)SmallProduct_Type);
}
