/* Elimination in one small matrix, with rows in vectors. dense.c includes this with NUMBER and NAME defined. */

INLINE void NAME(subtract)(NUMBER *to, NUMBER factor, const NUMBER *row, int64_t length) {
    for (int64_t i = 0; i < length; i++)
        to[i] -= factor * row[i];
}

INLINE void NAME(exchange)(NUMBER *a, NUMBER *b, int64_t length) {
    for (int64_t i = 0; i < length; i++) {
        NUMBER x = a[i];
        a[i] = b[i];
        b[i] = x;
    }
}

/* LU factors of a row-major matrix in place, as LAPACK computes them: the first largest element of a column is the pivot, and
 * NaN is not larger than anything. The exchanges and the inverse of the lower triangle are applied to the right-hand sides.
 * Whether no pivot is zero. */
FOR_EACH_MACHINE static bool NAME(eliminate)(NUMBER *x, int64_t rows, int64_t columns, NUMBER *rhs, int64_t rhs_columns,
                                             uint32_t *pivots) {
    bool is_nonsingular = true;
    for (int64_t k = 0; k < rows && k < columns; k++) {
        NUMBER *row = x + k * columns, largest = NAME(magnitude)(row[k]);
        int64_t pivot = k;
        for (int64_t r = k + 1; r < rows; r++) {
            NUMBER size = NAME(magnitude)(x[r * columns + k]);
            if (size > largest) {
                largest = size;
                pivot = r;
            }
        }
        pivots[k] = (uint32_t)pivot;
        if (pivot != k) {
            NAME(exchange)(row, x + pivot * columns, columns);
            NAME(exchange)(rhs + k * rhs_columns, rhs + pivot * rhs_columns, rhs_columns);
        }
        if (row[k] == 0) { /* the column remains as it is */
            is_nonsingular = false;
            continue;
        }
        for (int64_t r = k + 1; r < rows; r++) { /* the inverse of a subnormal number would be infinite */
            NUMBER factor = x[r * columns + k] /= row[k];
            NAME(subtract)(x + r * columns + k + 1, factor, row + k + 1, columns - k - 1);
            NAME(subtract)(rhs + r * rhs_columns, factor, rhs + k * rhs_columns, rhs_columns);
        }
    }
    return is_nonsingular;
}
