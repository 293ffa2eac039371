/* The loops of near_products.c for one instruction set. Included several times, each time with these defined:
 *
 * MACHINE   suffix of the functions' names
 * TARGET    attributes of the functions
 * LANES     floats in a vector register
 * VECTORS   vectors of queries in a register tile: the width of a panel
 * ROWS      rows in a register tile, such that ROWS * VECTORS accumulators fit in the registers
 */
#define JOIN_NAMES(a, b) a##_##b
#define NAME_FOR(name, machine) JOIN_NAMES(name, machine)
#define NAMED(name) NAME_FOR(name, MACHINE)

typedef float NAMED(Floats) __attribute__((vector_size(4 * LANES)));
typedef int32_t NAMED(Ints) __attribute__((vector_size(4 * LANES)));

/* `rows_together` and `vectors` are compile-time constants. */
TARGET INLINE int64_t NAMED(multiply)(const int rows_together, const int vectors, const float *panel, int64_t query_count,
                                      const float *limits, const float *rows, int64_t d, const float *factors,
                                      const float *terms, int32_t first, ingot_hit *hits) {
    NAMED(Floats) sums[ROWS][VECTORS];
#pragma GCC unroll 16
    for (int r = 0; r < rows_together; r++) {
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++)
            sums[r][v] = (NAMED(Floats)){0};
    }
    for (int64_t i = 0; i < d; i++) {
        NAMED(Floats) x[VECTORS];
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++)
            memcpy(&x[v], panel + (i * vectors + v) * LANES, sizeof x[v]);
#pragma GCC unroll 16
        for (int r = 0; r < rows_together; r++) {
            float y = rows[r * d + i];
#pragma GCC unroll 16
            for (int v = 0; v < vectors; v++)
                sums[r][v] += x[v] * y;
        }
    }
    int64_t found = 0;
#pragma GCC unroll 16
    for (int r = 0; r < rows_together; r++) {
        NAMED(Ints) more[VECTORS], all_more;
        memset(&all_more, -1, sizeof all_more);
#pragma GCC unroll 16
        for (int v = 0; v < vectors; v++) {
            NAMED(Floats) limit;
            memcpy(&limit, limits + v * LANES, sizeof limit);
            sums[r][v] = terms[r] - factors[r] * sums[r][v];
            more[v] = sums[r][v] > limit;
            all_more &= more[v];
        }
        int64_t parts[LANES / 2], all = -1;
        memcpy(parts, &all_more, sizeof parts);
        for (int part = 0; part < LANES / 2; part++)
            all &= parts[part];
        if (all == -1) /* none is near: the common case */
            continue;
        float values[VECTORS * LANES];
        int32_t far[VECTORS * LANES];
        memcpy(values, sums[r], (size_t)vectors * sizeof sums[r][0]);
        memcpy(far, more, (size_t)vectors * sizeof more[0]);
        for (int query = 0; query < query_count; query++) {
            hits[found] = (ingot_hit){values[query], query, first + r};
            found += !far[query];
        }
    }
    return found;
}

TARGET INLINE int64_t NAMED(multiply_all)(const int vectors, const float *panel, int64_t query_count, const float *limits,
                                          const float *rows, int64_t row_count, int64_t d, const float *factors,
                                          const float *terms, ingot_hit *hits) {
    int64_t found = 0, row = 0;
    for (; row + ROWS <= row_count; row += ROWS)
        found += NAMED(multiply)(ROWS, vectors, panel, query_count, limits, rows + row * d, d, factors + row, terms + row,
                                 (int32_t)row, hits + found);
    for (; row < row_count; row++)
        found += NAMED(multiply)(1, vectors, panel, query_count, limits, rows + row * d, d, factors + row, terms + row,
                                 (int32_t)row, hits + found);
    return found;
}

TARGET static int64_t NAMED(near_products)(const float *panel, int64_t query_count, const float *limits, const float *rows,
                                           int64_t row_count, int64_t d, const float *factors, const float *terms,
                                           ingot_hit *hits) {
#define WITH(count)                                                                                                       \
    if (VECTORS >= (count) && query_count <= (count) * LANES)                                                             \
        return NAMED(multiply_all)(VECTORS < (count) ? VECTORS : (count), panel, query_count, limits, rows, row_count, d, \
                                   factors, terms, hits);
    WITH(1)
    WITH(2)
    WITH(3)
    WITH(4)
#undef WITH
    return 0;
}

#undef JOIN_NAMES
#undef NAME_FOR
#undef NAMED
#undef MACHINE
#undef TARGET
#undef LANES
#undef VECTORS
#undef ROWS
