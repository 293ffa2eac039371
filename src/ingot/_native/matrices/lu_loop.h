/* LU factors with partial pivoting, of as many matrices as a vector has lanes. lu.c includes this for each NUMBER, with INTEGER
 * for integers of its size, MAGNITUDE for the bits besides the sign, and NAME(x) to make names unique.
 *
 * Each matrix is in one lane, so that all arithmetic is vectorised for matrices of any size. Lanes exchange different rows: the
 * masks of a row say which lanes exchange it with the pivot's. */
#define Lanes NAME(Lanes)
#define Integers NAME(Integers)
#define Block NAME(Block)
#define LANES ((int64_t)(64 / sizeof(NUMBER)))
#define SELECT(mask, yes, no) ((Lanes)(((mask) & (Integers)(yes)) | (~(mask) & (Integers)(no))))

typedef NUMBER Lanes __attribute__((vector_size(64)));
typedef INTEGER Integers __attribute__((vector_size(64)));

/* The matrices in the lanes, with their right-hand sides behind the columns, and what the elimination finds. */
typedef struct {
    Lanes *x;
    int64_t rows, columns, width; /* width: with the right-hand sides */
    int64_t stride;               /* of rows */
    Lanes *multipliers;           /* by row */
    Integers *masks;              /* by row */
    Integers *pivots;             /* by column */
} Block;

/* Exchanges rows of some columns; with `eliminate`, subtracts multiples of the pivot's row from those below. */
INLINE void NAME(update_columns)(const Block *b, int64_t k, int64_t column, int width, bool eliminate) {
    Lanes before[TILE], pivot[TILE], *top = b->x + k * b->stride + column;
    for (int c = 0; c < width; c++)
        before[c] = pivot[c] = top[c];
    const Lanes *from = top;
    for (int64_t r = k + 1; r < b->rows; r++) {
        from += b->stride;
        Integers mask = b->masks[r];
#pragma GCC unroll 4
        for (int c = 0; c < width; c++)
            pivot[c] = SELECT(mask, from[c], pivot[c]);
    }
    for (int c = 0; c < width; c++)
        top[c] = pivot[c];
    Lanes *row = top;
    for (int64_t r = k + 1; r < b->rows; r++) {
        row += b->stride;
        Integers mask = b->masks[r];
#pragma GCC unroll 4
        for (int c = 0; c < width; c++) {
            Lanes element = SELECT(mask, before[c], row[c]);
            row[c] = eliminate ? element - b->multipliers[r] * pivot[c] : element;
        }
    }
}

INLINE void NAME(update_range)(const Block *b, int64_t k, int64_t begin, int64_t end, bool eliminate) {
    int64_t column = begin;
    for (; column + TILE <= end; column += TILE)
        NAME(update_columns)(b, k, column, TILE, eliminate);
    for (; column < end; column++)
        NAME(update_columns)(b, k, column, 1, eliminate);
}

/* Chooses the first largest element of a column as LAPACK does: NaN is not larger than anything. */
INLINE void NAME(choose_pivot)(const Block *b, int64_t k) {
    Lanes largest = (Lanes)((Integers)b->x[k * b->stride + k] & MAGNITUDE);
    Integers pivot = (Integers){0} + (INTEGER)k;
    for (int64_t r = k + 1; r < b->rows; r++) {
        Lanes size = (Lanes)((Integers)b->x[r * b->stride + k] & MAGNITUDE);
        Integers is_larger = (Integers)(size > largest);
        largest = SELECT(is_larger, size, largest);
        pivot = (is_larger & (INTEGER)r) | (~is_larger & pivot);
    }
    b->pivots[k] = pivot;
    for (int64_t r = k + 1; r < b->rows; r++)
        b->masks[r] = (Integers)(pivot == (INTEGER)r);
}

/* Factorises in place and applies the exchanges and the lower triangle's inverse to the right-hand sides. Whether no pivot is
 * zero. Without `whole`, rows of the lower triangle are not exchanged. */
FOR_EACH_MACHINE static bool NAME(eliminate)(const Block *b, bool whole) {
    Integers zeros = {0};
    for (int64_t k = 0; k < b->rows && k < b->columns; k++) {
        NAME(choose_pivot)(b, k);
        NAME(update_columns)(b, k, k, 1, false);
        Lanes pivot = b->x[k * b->stride + k];
        Integers is_zero = (Integers)(pivot == 0);
        zeros |= is_zero;
        pivot = SELECT(is_zero, (Lanes){0} + 1, pivot); /* the column remains as it is */
        for (int64_t r = k + 1; r < b->rows; r++)       /* the inverse of a subnormal number would be infinite */
            b->multipliers[r] = b->x[r * b->stride + k] /= pivot;
        NAME(update_range)(b, k, k + 1, b->width, true);
        if (whole)
            NAME(update_range)(b, k, 0, k, false);
    }
    INTEGER any = 0;
    for (int64_t lane = 0; lane < LANES; lane++)
        any |= zeros[lane];
    return any == 0;
}

INLINE void NAME(substitute_columns)(const Block *b, int64_t column, int width) {
    for (int64_t k = b->rows - 1; k >= 0; k--) {
        Lanes solution[TILE], *row = b->x + k * b->stride, *above = b->x;
        for (int c = 0; c < width; c++)
            solution[c] = row[column + c] /= row[k];
        for (int64_t r = 0; r < k; r++) {
#pragma GCC unroll 4
            for (int c = 0; c < width; c++)
                above[column + c] -= above[k] * solution[c];
            above += b->stride;
        }
    }
}

/* Applies the inverse of the upper triangle to the right-hand sides. */
FOR_EACH_MACHINE static void NAME(substitute)(const Block *b) {
    int64_t column = b->columns;
    for (; column + TILE <= b->width; column += TILE)
        NAME(substitute_columns)(b, column, TILE);
    for (; column < b->width; column++)
        NAME(substitute_columns)(b, column, 1);
}

/* Unused lanes repeat the last matrix. */
static void NAME(load_lanes)(const Block *b, int64_t column, int64_t width, const NUMBER *from, int64_t count) {
    for (int64_t lane = 0; lane < LANES; lane++) {
        const NUMBER *matrix = from + (lane < count ? lane : count - 1) * b->rows * width;
        for (int64_t r = 0; r < b->rows; r++) {
            NUMBER *to = (NUMBER *)(b->x + r * b->stride + column) + lane;
            for (int64_t c = 0; c < width; c++)
                to[c * LANES] = matrix[r * width + c];
        }
    }
}

static void NAME(store_lanes)(const Block *b, int64_t column, int64_t width, NUMBER *to, int64_t count) {
    for (int64_t lane = 0; lane < count; lane++) {
        for (int64_t r = 0; r < b->rows; r++) {
            const NUMBER *from = (const NUMBER *)(b->x + r * b->stride + column) + lane;
            for (int64_t c = 0; c < width; c++)
                to[(lane * b->rows + r) * width + c] = from[c * LANES];
        }
    }
}

static void NAME(store_pivots)(const Block *b, const Systems *s, int64_t first, int64_t count) {
    int64_t rank = b->rows < b->columns ? b->rows : b->columns;
    for (int64_t lane = 0; lane < count; lane++) {
        uint32_t *pivots = s->pivots + (first + lane) * rank;
        for (int64_t k = 0; k < rank; k++)
            pivots[k] = (uint32_t)b->pivots[k][lane];
        ingot_set_positions(pivots, rank, s->positions + (first + lane) * b->rows, b->rows);
    }
}

/* The determinants, or their signs and the logarithms of their absolute values. */
static void NAME(store_determinants)(const Block *b, const Systems *s, int64_t first, int64_t count) {
    for (int64_t lane = 0; lane < count; lane++) {
        Determinant found = {.mantissa = 1};
        for (int64_t k = 0; k < b->rows; k++)
            ingot_multiply_determinant(&found, b->x[k * b->stride + k][lane], b->pivots[k][lane] != k);
        NUMBER *to = (NUMBER *)s->to + first + lane;
        *to = (NUMBER)(s->logarithms == NULL ? ingot_determinant(&found) : ingot_sign_of_determinant(&found));
        if (s->logarithms != NULL)
            ((NUMBER *)s->logarithms)[first + lane] = (NUMBER)ingot_log_determinant(&found);
    }
}

/* Processes up to LANES matrices. Whether none is found to be singular. */
static bool NAME(process_matrices)(const Systems *s, int64_t first, int64_t count, char *scratch) {
    int64_t elements = s->rows * s->columns, width = s->rhs_columns;
    Lanes *vectors = (Lanes *)scratch;
    Block b = {.x = vectors, .rows = s->rows, .columns = s->columns, .width = s->columns + width, .stride = s->stride};
    b.multipliers = vectors + b.rows * b.stride;
    b.masks = (Integers *)(b.multipliers + b.rows);
    b.pivots = b.masks + b.rows;
    NAME(load_lanes)(&b, 0, b.columns, (const NUMBER *)s->from + first * elements, count);
    if (s->rhs != NULL)
        NAME(load_lanes)(&b, b.columns, width, (const NUMBER *)s->rhs + first * b.rows * width, count);
    else
        for (int64_t r = 0; r < b.rows; r++)
            for (int64_t c = 0; c < width; c++)
                b.x[r * b.stride + b.columns + c] = (Lanes){0} + (NUMBER)(r == c);
    bool is_nonsingular = NAME(eliminate)(&b, s->result == FACTORS);
    if (s->result == SOLUTIONS && is_nonsingular) {
        NAME(substitute)(&b);
        NAME(store_lanes)(&b, b.columns, width, (NUMBER *)s->to + first * b.rows * width, count);
    } else if (s->result == FACTORS) {
        NAME(store_lanes)(&b, 0, b.columns, (NUMBER *)s->to + first * elements, count);
        NAME(store_pivots)(&b, s, first, count);
    } else if (s->result == DETERMINANTS)
        NAME(store_determinants)(&b, s, first, count);
    return is_nonsingular;
}

#undef Lanes
#undef Integers
#undef Block
#undef LANES
#undef SELECT
#undef NUMBER
#undef INTEGER
#undef MAGNITUDE
#undef NAME
