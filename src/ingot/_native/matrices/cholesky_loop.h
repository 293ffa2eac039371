/* Cholesky factors of as many matrices as a vector has lanes. cholesky.c includes this for each NUMBER, with NAME(x) to
 * make names unique and ROOT(x) for square roots.
 *
 * Each matrix is in one lane, so that all arithmetic is vectorised for matrices of any size. Tiles of TILE x TILE elements
 * stay in registers while the contributions of earlier columns are subtracted. */
#define Lanes NAME(Lanes)
#define LANES ((int64_t)(64 / sizeof(NUMBER)))

typedef NUMBER Lanes __attribute__((vector_size(64)));

/* Factorises a tile on the diagonal, and computes the inverses of its diagonal elements. Whether all matrices are positive
 * definite. */
INLINE bool NAME(factorize_tile)(Lanes sums[TILE][TILE], Lanes *inverses) {
    bool is_definite = true;
#pragma GCC unroll 4
    for (int c = 0; c < TILE; c++) {
        NUMBER pivots[64 / sizeof(NUMBER)], roots[64 / sizeof(NUMBER)];
        memcpy(pivots, &sums[c][c], sizeof pivots);
        for (int lane = 0; lane < LANES; lane++) {
            is_definite &= pivots[lane] > 0;
            roots[lane] = ROOT(pivots[lane]);
        }
        memcpy(&sums[c][c], roots, sizeof roots);
        inverses[c] = 1 / sums[c][c];
#pragma GCC unroll 4
        for (int r = c + 1; r < TILE; r++)
            sums[r][c] *= inverses[c];
#pragma GCC unroll 4
        for (int other = c + 1; other < TILE; other++) {
#pragma GCC unroll 4
            for (int r = other; r < TILE; r++)
                sums[r][other] -= sums[r][c] * sums[other][c];
        }
    }
    return is_definite;
}

/* A tile below the diagonal, times the inverse of the transposed factor `diagonal`. */
INLINE void NAME(solve_tile)(Lanes sums[TILE][TILE], const Lanes *diagonal, int64_t length, const Lanes *inverses) {
#pragma GCC unroll 4
    for (int c = 0; c < TILE; c++) {
#pragma GCC unroll 4
        for (int r = 0; r < TILE; r++)
            sums[r][c] *= inverses[c];
#pragma GCC unroll 4
        for (int other = c + 1; other < TILE; other++) {
#pragma GCC unroll 4
            for (int r = 0; r < TILE; r++)
                sums[r][other] -= sums[r][c] * diagonal[other * length + c];
        }
    }
}

/* Factorises the lower triangles of matrices in place; the number of rows is a multiple of TILE. */
FOR_EACH_MACHINE static bool NAME(factorize)(Lanes *x, int64_t length) {
    bool is_definite = true;
    for (int64_t column = 0; column < length; column += TILE) {
        Lanes inverses[TILE] = {{0}};
        for (int64_t row = column; row < length; row += TILE) {
            Lanes sums[TILE][TILE], *tile = x + row * length + column;
            const Lanes *left = x + row * length, *right = x + column * length;
#pragma GCC unroll 4
            for (int r = 0; r < TILE; r++) {
#pragma GCC unroll 4
                for (int c = 0; c < TILE; c++)
                    sums[r][c] = tile[r * length + c];
            }
            for (int64_t k = 0; k < column; k++) {
#pragma GCC unroll 4
                for (int r = 0; r < TILE; r++) {
#pragma GCC unroll 4
                    for (int c = 0; c < TILE; c++)
                        sums[r][c] -= left[r * length + k] * right[c * length + k];
                }
            }
            if (row == column)
                is_definite &= NAME(factorize_tile)(sums, inverses);
            else
                NAME(solve_tile)(sums, x + column * length + column, length, inverses);
#pragma GCC unroll 4
            for (int r = 0; r < TILE; r++) {
#pragma GCC unroll 4
                for (int c = 0; c < TILE; c++)
                    tile[r * length + c] = sums[r][c];
            }
        }
    }
    return is_definite;
}

/* Factorises up to LANES matrices; unused lanes repeat the last one. */
static bool NAME(factorize_matrices)(const Factors *f, int64_t first, int64_t count, void *scratch) {
    int64_t n = f->length, padded = f->padded;
    int64_t down = f->upper ? 1 : n, across = f->upper ? n : 1;
    NUMBER *lanes = scratch;
    for (int64_t r = 0; r < padded; r++)
        for (int64_t lane = 0; lane < LANES; lane++) {
            const NUMBER *from = (const NUMBER *)f->from + (first + (lane < count ? lane : count - 1)) * n * n + r * down;
            NUMBER *to = lanes + r * padded * LANES + lane;
            for (int64_t c = 0; c <= r; c++)
                to[c * LANES] = r < n ? from[c * across] : (NUMBER)(r == c);
        }
    for (int64_t r = 0; r < padded; r += TILE) /* tiles on the diagonal are loaded as a whole */
        for (int64_t i = r; i < r + TILE; i++)
            memset(lanes + (i * padded + i + 1) * LANES, 0, (size_t)((r + TILE - 1 - i) * LANES) * sizeof(NUMBER));
    bool is_definite = NAME(factorize)(scratch, padded);
    for (int64_t r = 0; r < n; r++)
        for (int64_t lane = 0; lane < count; lane++) {
            NUMBER *to = (NUMBER *)f->to + (first + lane) * n * n + r * down;
            const NUMBER *from = lanes + r * padded * LANES + lane;
            for (int64_t c = 0; c <= r; c++)
                to[c * across] = from[c * LANES];
            for (int64_t c = r + 1; c < n; c++)
                to[c * across] = 0;
        }
    return is_definite;
}

#undef Lanes
#undef LANES
#undef NUMBER
#undef NAME
#undef ROOT
