/* Fourier transforms with the vectors of one instruction set. fourier.c includes this several times, each time with
 * these defined:
 *
 * MACHINE  suffix of the functions' names
 * TARGET   attributes of the functions
 * LANES    floats in a vector
 * EVEN, ODD, LOW, HIGH, REVERSED   lists of lanes for SHUFFLE: every second lane of two vectors, the interleaved
 *          lower and upper halves of two vectors, and one vector backwards
 *
 * Vectors hold real and imaginary parts apart. The inverse transform is the transform with the two exchanged, before
 * and after, so all passes are those of the forward one. */
#define JOIN_NAMES(a, b) a##_##b
#define NAME_FOR(name, machine) JOIN_NAMES(name, machine)
#define NAMED(name) NAME_FOR(name, MACHINE)
#define Floats NAMED(Floats)
#define Numbers NAMED(Numbers)

typedef float Floats __attribute__((vector_size(4 * LANES)));
typedef struct {
    Floats re, im;
} Numbers;

/* ---- complex numbers in memory ---- */

TARGET INLINE void NAMED(load)(Numbers *x, const float *from, bool exchanged) {
    Floats first, second;
    memcpy(&first, from, sizeof first);
    memcpy(&second, from + LANES, sizeof second);
    Floats even = SHUFFLE(first, second, EVEN), odd = SHUFFLE(first, second, ODD);
    x->re = exchanged ? odd : even;
    x->im = exchanged ? even : odd;
}

TARGET INLINE void NAMED(store)(float *to, const Numbers *x, bool exchanged) {
    Floats even = exchanged ? x->im : x->re, odd = exchanged ? x->re : x->im;
    Floats first = SHUFFLE(even, odd, LOW), second = SHUFFLE(even, odd, HIGH);
    memcpy(to, &first, sizeof first);
    memcpy(to + LANES, &second, sizeof second);
}

/* The transpose of LANES vectors: each round interleaves the first half of them with the second. */
TARGET INLINE void NAMED(transpose)(Floats *rows) {
#pragma GCC unroll 4
    for (int round = 1; round < LANES; round *= 2) {
        Floats next[LANES];
#pragma GCC unroll 16
        for (int i = 0; i < LANES / 2; i++) {
            next[2 * i] = SHUFFLE(rows[i], rows[i + LANES / 2], LOW);
            next[2 * i + 1] = SHUFFLE(rows[i], rows[i + LANES / 2], HIGH);
        }
#pragma GCC unroll 16
        for (int i = 0; i < LANES; i++)
            rows[i] = next[i];
    }
}

#include "fourier/fourier_passes.h"

/* ---- short transforms: each lane is a row ---- */

/* The numbers of a row that is shorter than a vector, up to `end`, where the readable memory ends. */
TARGET INLINE void NAMED(load_short)(Numbers *x, const float *from, int64_t length, const float *end, bool exchanged) {
    float padded[2 * LANES] = {0};
    if (end - from < 2 * LANES) {
        memcpy(padded, from, (size_t)length * 2 * sizeof(float));
        from = padded;
    }
    NAMED(load)(x, from, exchanged);
}

/* Stores may run over what follows the row, up to `end`; later rows are stored after it. */
TARGET INLINE void NAMED(store_short)(float *to, const Numbers *x, int64_t length, const float *end, bool exchanged) {
    float padded[2 * LANES];
    bool fits = end - to >= 2 * LANES;
    NAMED(store)(fits ? to : padded, x, exchanged);
    if (!fits)
        memcpy(to, padded, (size_t)length * 2 * sizeof(float));
}

/* The last of several vectors of a row overlaps the one before. */
INLINE int64_t NAMED(chunk)(int64_t first, int64_t length) {
    return length < LANES || first < length - LANES ? first : length - LANES;
}

TARGET static void NAMED(load_rows)(Numbers *x, const float *const *rows, int64_t length, const float *end, bool exchanged) {
    for (int64_t first = 0; first < length; first += LANES) {
        Floats re[LANES], im[LANES];
        int64_t at = NAMED(chunk)(first, length);
        for (int i = 0; i < LANES; i++) {
            Numbers some;
            if (length >= LANES)
                NAMED(load)(&some, rows[i] + 2 * at, exchanged);
            else
                NAMED(load_short)(&some, rows[i], length, end, exchanged);
            re[i] = some.re;
            im[i] = some.im;
        }
        NAMED(transpose)(re);
        NAMED(transpose)(im);
        for (int i = 0; i < LANES; i++)
            x[at + i] = (Numbers){re[i], im[i]};
    }
}

TARGET static void NAMED(store_rows)(float *const *rows, int64_t row_count, const Numbers *x, int64_t length, float scale,
                                     bool exchanged) {
    const float *end = rows[row_count - 1] + 2 * length;
    for (int64_t first = 0; first < length; first += LANES) {
        Floats re[LANES], im[LANES];
        int64_t at = NAMED(chunk)(first, length);
        for (int i = 0; i < LANES; i++) {
            re[i] = x[at + i].re * scale;
            im[i] = x[at + i].im * scale;
        }
        NAMED(transpose)(re);
        NAMED(transpose)(im);
        for (int64_t i = 0; i < row_count; i++) {
            Numbers some = {re[i], im[i]};
            if (length >= LANES)
                NAMED(store)(rows[i] + 2 * at, &some, exchanged);
            else
                NAMED(store_short)(rows[i], &some, length, end, exchanged);
        }
    }
}

/* The half spectrum of 2n real numbers from the transform of n pairs of them. */
TARGET static void NAMED(untangle_rows)(const ingot_fourier_plan *plan, const Numbers *x, Numbers *y) {
    int64_t n = plan->length;
    y[0] = (Numbers){x[0].re + x[0].im, {0}};
    y[n] = (Numbers){x[0].re - x[0].im, {0}};
    for (int64_t k = 1; k < n; k++) {
        Numbers a = x[k], b = x[n - k];
        Floats dr = a.re - b.re, di = a.im + b.im;
        float re = plan->halves_real[k], im = plan->halves_imag[k];
        y[k] = (Numbers){(a.re + b.re) * 0.5F + (dr * re - di * im), (a.im - b.im) * 0.5F + (dr * im + di * re)};
    }
}

/* The inverse of it, doubled, with real and imaginary parts exchanged. */
TARGET static void NAMED(tangle_rows)(const ingot_fourier_plan *plan, const Numbers *x, Numbers *y) {
    int64_t n = plan->length;
    y[0] = (Numbers){x[0].re - x[n].re, x[0].re + x[n].re};
    for (int64_t k = 1; k < n; k++) {
        Numbers a = x[k], b = x[n - k];
        Floats dr = a.re - b.re, di = a.im + b.im;
        float re = 2 * plan->halves_real[k], im = -2 * plan->halves_imag[k];
        y[k] = (Numbers){(a.im - b.im) + (dr * im + di * re), (a.re + b.re) + (dr * re - di * im)};
    }
}

/* Transforms up to LANES rows, each of which follows the one before in memory; what is readable ends at `end`, and
 * `scratch` has room for 2 * (length + 1 + LANES) numbers, and what the plan needs. */
TARGET static void NAMED(transform_rows)(const ingot_fourier_plan *plan, ingot_fourier_kind kind, const float *const *from,
                                         float *const *to, int64_t row_count, const float *end, float scale, float *scratch) {
    int64_t n = plan->length;
    Numbers *x = (Numbers *)scratch, *y = x + n + 1 + LANES, *room = y + n + 1 + LANES;
    const float *rows[LANES];
    for (int64_t i = 0; i < LANES; i++)
        rows[i] = from[i < row_count ? i : 0];
    NAMED(load_rows)(x, rows, kind == FOURIER_REAL_BACKWARD ? n + 1 : n, end, kind == FOURIER_BACKWARD);
    if (kind == FOURIER_REAL_BACKWARD) {
        NAMED(tangle_rows)(plan, x, y);
        Numbers *other = x;
        x = y;
        y = other;
    }
    Numbers *result = NAMED(transform)(&plan->parts[0], x, y, room), *other = result == x ? y : x;
    if (kind == FOURIER_REAL_FORWARD) {
        NAMED(untangle_rows)(plan, result, other);
        result = other;
    }
    NAMED(store_rows)(to, row_count, result, kind == FOURIER_REAL_FORWARD ? n + 1 : n, scale,
                      kind == FOURIER_BACKWARD || kind == FOURIER_REAL_BACKWARD);
}

/* ---- long transforms: lanes are columns, then rows, of one array; the last block of lanes overlaps the one before ---- */

/* Transforms blocks of columns; the result is in `re` and `im`, each as rows x columns. */
TARGET static void NAMED(transform_columns)(const ingot_fourier_plan *plan, const float *from, bool exchanged, float *re,
                                            float *im, int64_t begin, int64_t end, float *scratch) {
    int64_t rows = plan->parts[0].length, columns = plan->parts[1].length;
    Numbers *x = (Numbers *)scratch, *y = x + rows, *room = y + rows;
    for (int64_t block = begin; block < end; block++) {
        int64_t column = block * LANES < columns - LANES ? block * LANES : columns - LANES;
        for (int64_t i = 0; i < rows; i++)
            NAMED(load)(&x[i], from + 2 * (i * columns + column), exchanged);
        const Numbers *found = NAMED(transform)(&plan->parts[0], x, y, room);
        for (int64_t i = 0; i < rows; i++) {
            Floats root_re, root_im, own_re = found[i].re, own_im = found[i].im;
            int64_t at = i * columns + column;
            memcpy(&root_re, plan->cross_real + at, sizeof root_re);
            memcpy(&root_im, plan->cross_imag + at, sizeof root_im);
            Floats new_re = own_re * root_re - own_im * root_im, new_im = own_re * root_im + own_im * root_re;
            memcpy(re + at, &new_re, sizeof new_re);
            memcpy(im + at, &new_im, sizeof new_im);
        }
    }
}

/* Transforms blocks of the rows that transform_columns left. */
TARGET static void NAMED(transform_lines)(const ingot_fourier_plan *plan, const float *re, const float *im, float *to,
                                          float scale, bool exchanged, int64_t begin, int64_t end, float *scratch) {
    int64_t rows = plan->parts[0].length, columns = plan->parts[1].length;
    Numbers *x = (Numbers *)scratch, *y = x + columns, *room = y + columns;
    for (int64_t block = begin; block < end; block++) {
        int64_t row = block * LANES < rows - LANES ? block * LANES : rows - LANES;
        for (int64_t first = 0; first < columns; first += LANES) {
            int64_t column = first < columns - LANES ? first : columns - LANES;
            Floats part_re[LANES], part_im[LANES];
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                memcpy(&part_re[i], re + (row + i) * columns + column, sizeof part_re[i]);
            NAMED(transpose)(part_re);
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                x[column + i].re = part_re[i];
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                memcpy(&part_im[i], im + (row + i) * columns + column, sizeof part_im[i]);
            NAMED(transpose)(part_im);
#pragma GCC unroll 16
            for (int i = 0; i < LANES; i++)
                x[column + i].im = part_im[i];
        }
        const Numbers *found = NAMED(transform)(&plan->parts[1], x, y, room);
        for (int64_t i = 0; i < columns; i++) {
            Numbers scaled = {found[i].re * scale, found[i].im * scale};
            NAMED(store)(to + 2 * (i * rows + row), &scaled, exchanged);
        }
    }
}

/* Elements begin <= k < end of 1 to n - 1, from `from` to `to`; those that are less than LANES before the end are
 * computed again. */
TARGET static void NAMED(untangle)(const ingot_fourier_plan *plan, const float *from, float *to, int64_t begin, int64_t end) {
    int64_t n = plan->length;
    for (int64_t first = begin; first < end; first += LANES) {
        int64_t k = first < n - LANES ? first : n - LANES;
        Numbers a, b;
        Floats root_re, root_im;
        NAMED(load)(&a, from + 2 * k, false);
        NAMED(load)(&b, from + 2 * (n - k - LANES + 1), false);
        memcpy(&root_re, plan->halves_real + k, sizeof root_re);
        memcpy(&root_im, plan->halves_imag + k, sizeof root_im);
        b.re = SHUFFLE(b.re, b.re, REVERSED);
        b.im = SHUFFLE(b.im, b.im, REVERSED);
        Floats dr = a.re - b.re, di = a.im + b.im;
        Numbers result = {(a.re + b.re) * 0.5F + (dr * root_re - di * root_im),
                          (a.im - b.im) * 0.5F + (dr * root_im + di * root_re)};
        NAMED(store)(to + 2 * k, &result, false);
    }
}

TARGET static void NAMED(tangle)(const ingot_fourier_plan *plan, const float *from, float *to, int64_t begin, int64_t end) {
    int64_t n = plan->length;
    for (int64_t first = begin; first < end; first += LANES) {
        int64_t k = first < n - LANES ? first : n - LANES;
        Numbers a, b;
        Floats root_re, root_im;
        NAMED(load)(&a, from + 2 * k, false);
        NAMED(load)(&b, from + 2 * (n - k - LANES + 1), false);
        memcpy(&root_re, plan->halves_real + k, sizeof root_re);
        memcpy(&root_im, plan->halves_imag + k, sizeof root_im);
        b.re = SHUFFLE(b.re, b.re, REVERSED);
        b.im = SHUFFLE(b.im, b.im, REVERSED);
        Floats dr = a.re - b.re, di = a.im + b.im, re = 2 * root_re, im = -2 * root_im;
        Numbers result = {(a.im - b.im) + (dr * im + di * re), (a.re + b.re) + (dr * re - di * im)};
        NAMED(store)(to + 2 * k, &result, false);
    }
}

/* ---- columns: each lane is a column, whose numbers lie `stride` apart ---- */

/* The transform of x, in x or y, by the arithmetic that its plan has for rows; y ends with room for the vectors of both
 * parts of a plan that is split, their copy, and what passes need. */
TARGET static Numbers *NAMED(transform_vectors)(const ingot_fourier_plan *plan, Numbers *x, Numbers *y) {
    if (!plan->is_split)
        return NAMED(transform)(&plan->parts[0], x, y, y + plan->length + 1);
    int64_t rows = plan->parts[0].length, columns = plan->parts[1].length;
    int64_t longest = rows > columns ? rows : columns;
    Numbers *part = y + plan->length, *copy = part + longest, *room = copy + longest;
    for (int64_t column = 0; column < columns; column++) {
        for (int64_t i = 0; i < rows; i++)
            part[i] = x[i * columns + column];
        const Numbers *found = NAMED(transform)(&plan->parts[0], part, copy, room);
        for (int64_t i = 0; i < rows; i++) {
            int64_t at = i * columns + column;
            float re = plan->cross_real[at], im = plan->cross_imag[at];
            y[at] = (Numbers){found[i].re * re - found[i].im * im, found[i].re * im + found[i].im * re};
        }
    }
    for (int64_t row = 0; row < rows; row++) {
        const Numbers *found = NAMED(transform)(&plan->parts[1], y + row * columns, part, room);
        for (int64_t i = 0; i < columns; i++)
            x[i * rows + row] = found[i];
    }
    return x;
}

TARGET INLINE void NAMED(load_columns)(Numbers *x, const float *from, int64_t length, int64_t stride, bool exchanged) {
    for (int64_t i = 0; i < length; i++)
        NAMED(load)(&x[i], from + 2 * i * stride, exchanged);
}

/* Pairs of real numbers. */
TARGET INLINE void NAMED(load_pairs)(Numbers *x, const float *from, int64_t length, int64_t stride) {
    for (int64_t i = 0; i < length; i++) {
        memcpy(&x[i].re, from + 2 * i * stride, sizeof x[i].re);
        memcpy(&x[i].im, from + (2 * i + 1) * stride, sizeof x[i].im);
    }
}

/* Transforms LANES adjacent columns; `scratch` has room for ingot_transform's `vectors`. */
TARGET static void NAMED(transform_strided)(const ingot_fourier_plan *plan, ingot_fourier_kind kind, const float *from,
                                            float *to, int64_t stride, float scale, float *scratch) {
    int64_t n = plan->length;
    bool from_real = kind == FOURIER_REAL_FORWARD, to_real = kind == FOURIER_REAL_BACKWARD;
    Numbers *x = (Numbers *)scratch, *y = x + n + 1;
    if (from_real)
        NAMED(load_pairs)(x, from, n, stride);
    else
        NAMED(load_columns)(to_real ? y : x, from, n + to_real, stride, kind == FOURIER_BACKWARD);
    if (to_real)
        NAMED(tangle_rows)(plan, y, x);
    Numbers *result = NAMED(transform_vectors)(plan, x, y);
    if (from_real) {
        Numbers *other = result == x ? y : x;
        NAMED(untangle_rows)(plan, result, other);
        result = other;
    }
    for (int64_t i = 0; i < n + from_real; i++) {
        Numbers scaled = {result[i].re * scale, result[i].im * scale};
        if (to_real) {
            memcpy(to + 2 * i * stride, &scaled.im, sizeof scaled.im);
            memcpy(to + (2 * i + 1) * stride, &scaled.re, sizeof scaled.re);
        } else
            NAMED(store)(to + 2 * i * stride, &scaled, kind == FOURIER_BACKWARD);
    }
}

static const ingot_fourier_loops NAMED(loops) = {
    LANES,           NAMED(transform_rows), NAMED(transform_strided), NAMED(transform_columns), NAMED(transform_lines),
    NAMED(untangle), NAMED(tangle),
};

#undef JOIN_NAMES
#undef NAME_FOR
#undef NAMED
#undef Floats
#undef Numbers
#undef MACHINE
#undef TARGET
#undef LANES
#undef EVEN
#undef ODD
#undef LOW
#undef HIGH
#undef REVERSED
