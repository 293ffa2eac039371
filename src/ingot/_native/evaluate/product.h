/* Products of stacks of matrices by BLAS, shared out among the pool's threads. */
#ifndef INGOT_PRODUCT_H
#define INGOT_PRODUCT_H

#include "native.h"

#define MAXIMUM_STACK_AXES 6

/* c = a b for each place of a stack. Matrices are counted by columns, as BLAS does; strides of the stack are bytes. */
typedef struct {
    int element;       /* 's', 'd' or 'c' */
    char transpose[2]; /* of a and b: 'N' or 'T' */
    int64_t m, n, k, lda, ldb, ldc;
    int stack_axes;
    int64_t lengths[MAXIMUM_STACK_AXES];
    int64_t strides[3][MAXIMUM_STACK_AXES]; /* of a, b and c */
} Product;

/* From (element, transposes, m, n, k, lda, ldb, ldc, lengths, (strides of a, of b, of c)); -1 with an error set. */
int ingot_read_product(PyObject *tuple, Product *product);
/* How much of a product is done; all zeros at its beginning. */
typedef struct {
    int64_t done;          /* blocks, or chunks of all the stack */
    int64_t across, along; /* into how many chunks each result is cut, of its m rows and of its n columns */
} Progress;

/* Needs no GIL. `use_blas` must have been called before. False, with an exception, if it was interrupted: called again with
 * the same progress it goes on where it stopped. */
bool ingot_multiply(const Product *product, char *a, char *b, char *c, Progress *progress);

/* Between the two, BLAS stays on the thread that calls it. */
void ingot_hold_blas_threads(void);
void ingot_release_blas_threads(void);

#endif
