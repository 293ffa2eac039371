/* Stacks of matrix products by BLAS, shared among the threads of the pool. */
#ifndef INGOT_PRODUCT_H
#define INGOT_PRODUCT_H

#include "native.h"

#define MAXIMUM_STACK_AXES 6

/* c = a b for each position of a stack. Matrices are column-major, as in BLAS; strides of the stack are in bytes. */
typedef struct {
    int element;       /* 's', 'd' or 'c'; 'h' (float16) or 'b' (bfloat16) for small products, on one thread */
    char transpose[2]; /* of a and b: 'N' or 'T' */
    int64_t m, n, k, lda, ldb, ldc;
    int stack_axes;
    int64_t lengths[MAXIMUM_STACK_AXES];
    int64_t strides[3][MAXIMUM_STACK_AXES]; /* of a, b and c */
    int64_t steps[2];                       /* elements from one to the next in a and b: 1, unless the product is small */
} Product;

/* From (element, transposes, m, n, k, lda, ldb, ldc, lengths, (strides of a, of b, of c)) and optionally (steps); -1 with an
 * error set. */
int ingot_read_product(PyObject *tuple, Product *product);
/* The progress of a product; all zeros at the start. */
typedef struct {
    int64_t done;          /* blocks, or chunks of all the stack */
    int64_t across, along; /* the number of tiles of each result, along m and along n */
} Progress;

/* Needs no GIL. `use_blas` must have been called before. False, with an exception, if it was interrupted: calling it again
 * with the same progress resumes it. */
bool ingot_multiply(const Product *product, char *a, char *b, char *c, Progress *progress);

/* Small products of arrays of one layout (`SmallProduct` in Python), whose values are the result: a new reference. */
bool ingot_is_small_product(PyObject *object);
PyObject *ingot_run_small_product(PyObject *product, PyObject *left, PyObject *right);

/* Between the two calls, BLAS stays on the calling thread. */
void ingot_hold_blas_threads(void);
void ingot_release_blas_threads(void);

#endif
