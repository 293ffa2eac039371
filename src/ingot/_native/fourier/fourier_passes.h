/* Transforms of whole vectors of numbers: butterflies, passes and their sequence, with what fourier_loop.h defines, which
 * includes this once for each instruction set. */

/* ---- butterflies: transforms of `radix` numbers, in place ---- */

TARGET INLINE void NAMED(butterfly_2)(Numbers *a) {
    Numbers x = a[0], y = a[1];
    a[0] = (Numbers){x.re + y.re, x.im + y.im};
    a[1] = (Numbers){x.re - y.re, x.im - y.im};
}

TARGET INLINE void NAMED(butterfly_4)(Numbers *a) {
    Floats s0 = a[0].re + a[2].re, s1 = a[0].im + a[2].im, d0 = a[0].re - a[2].re, d1 = a[0].im - a[2].im;
    Floats s2 = a[1].re + a[3].re, s3 = a[1].im + a[3].im, d2 = a[1].re - a[3].re, d3 = a[1].im - a[3].im;
    a[0] = (Numbers){s0 + s2, s1 + s3};
    a[1] = (Numbers){d0 + d3, d1 - d2};
    a[2] = (Numbers){s0 - s2, s1 - s3};
    a[3] = (Numbers){d0 - d3, d1 + d2};
}

TARGET INLINE void NAMED(butterfly_8)(Numbers *a) {
    Numbers sums[4], others[4];
    const float root = 0.70710678118654752440F;
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        sums[i] = (Numbers){a[i].re + a[i + 4].re, a[i].im + a[i + 4].im};
        others[i] = (Numbers){a[i].re - a[i + 4].re, a[i].im - a[i + 4].im};
    }
    Numbers b = others[1], c = others[2], d = others[3];
    others[1] = (Numbers){(b.re + b.im) * root, (b.im - b.re) * root};
    others[2] = (Numbers){c.im, -c.re};
    others[3] = (Numbers){(d.im - d.re) * root, -((d.re + d.im) * root)};
    NAMED(butterfly_4)(sums);
    NAMED(butterfly_4)(others);
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
        a[2 * i] = sums[i];
        a[2 * i + 1] = others[i];
    }
}

/* `radix` is a compile-time constant; `roots` are those of its order. */
TARGET INLINE void NAMED(butterfly_odd)(Numbers *a, const int radix, const float *roots) {
    Numbers sums[6], differences[6], first = a[0];
#pragma GCC unroll 6
    for (int j = 1; j <= radix / 2; j++) {
        sums[j - 1] = (Numbers){a[j].re + a[radix - j].re, a[j].im + a[radix - j].im};
        differences[j - 1] = (Numbers){a[j].re - a[radix - j].re, a[j].im - a[radix - j].im};
        a[0] = (Numbers){a[0].re + sums[j - 1].re, a[0].im + sums[j - 1].im};
    }
#pragma GCC unroll 6
    for (int k = 1; k <= radix / 2; k++) {
        Numbers even = first, odd = {{0}, {0}};
#pragma GCC unroll 6
        for (int j = 1; j <= radix / 2; j++) {
            float cosine = roots[2 * (j * k % radix)], sine = roots[2 * (j * k % radix) + 1];
            even.re += cosine * sums[j - 1].re;
            even.im += cosine * sums[j - 1].im;
            odd.re += sine * differences[j - 1].im;
            odd.im += sine * differences[j - 1].re;
        }
        a[k] = (Numbers){even.re - odd.re, even.im + odd.im};
        a[radix - k] = (Numbers){even.re + odd.re, even.im - odd.im};
    }
}

/* One pass of Stockham's algorithm, which needs no reordering at the end: `stride` transforms, of which each butterfly
 * combines numbers that lie `count` strides apart. */
TARGET INLINE void NAMED(pass)(const int radix, const Numbers *x, Numbers *y, int64_t count, int64_t stride, const float *roots,
                               const float *own) {
    for (int64_t p = 0; p < count; p++, roots += 2 * (radix - 1)) {
        for (int64_t q = 0; q < stride; q++) {
            Numbers a[13];
#pragma GCC unroll 13
            for (int k = 0; k < radix; k++)
                a[k] = x[q + stride * (p + count * k)];
            if (radix == 2)
                NAMED(butterfly_2)(a);
            else if (radix == 4)
                NAMED(butterfly_4)(a);
            else if (radix == 8)
                NAMED(butterfly_8)(a);
            else
                NAMED(butterfly_odd)(a, radix, own);
            Numbers *to = y + q + stride * radix * p;
            to[0] = a[0];
#pragma GCC unroll 13
            for (int k = 1; k < radix; k++) {
                float re = roots[2 * (k - 1)], im = roots[2 * (k - 1) + 1];
                to[stride * k] = (Numbers){a[k].re * re - a[k].im * im, a[k].re * im + a[k].im * re};
            }
        }
    }
}

/* ---- transforms of a prime number of vectors, `step` apart on the input's side and `apart` on the other's ---- */

typedef struct {
    const Numbers *from;
    Numbers *to;
    int64_t step, apart;
    const float *roots; /* that the results but the first are multiplied by */
} NAMED(Prime);

TARGET INLINE void NAMED(store_result)(const NAMED(Prime) * of, int64_t k, Floats re, Floats im) {
    float root_re = of->roots[2 * (k - 1)], root_im = of->roots[2 * (k - 1) + 1];
    of->to[k * of->apart] = (Numbers){re * root_re - im * root_im, re * root_im + im * root_re};
}

/* By definition, with sums and differences of symmetric pairs. */
TARGET static void NAMED(transform_by_sums)(const ingot_fourier_prime *prime, const NAMED(Prime) * of, Numbers *room) {
    int64_t p = prime->length, half = p / 2;
    Numbers *sums = room, *differences = room + half, first = of->from[0], total = first;
    for (int64_t j = 0; j < half; j++) {
        Numbers a = of->from[(j + 1) * of->step], b = of->from[(p - j - 1) * of->step];
        sums[j] = (Numbers){a.re + b.re, a.im + b.im};
        differences[j] = (Numbers){a.re - b.re, a.im - b.im};
        total = (Numbers){total.re + sums[j].re, total.im + sums[j].im};
    }
    of->to[0] = total;
    const float *table = prime->table;
    for (int64_t k = 1; k <= half; k += SUMS_AT_ONCE) {
        Numbers even[SUMS_AT_ONCE], odd[SUMS_AT_ONCE];
#pragma GCC unroll 4
        for (int i = 0; i < SUMS_AT_ONCE; i++) {
            even[i] = first;
            odd[i] = (Numbers){{0}, {0}};
        }
        for (int64_t j = 0; j < half; j++, table += 2 * SUMS_AT_ONCE) {
#pragma GCC unroll 4
            for (int i = 0; i < SUMS_AT_ONCE; i++) {
                even[i].re += table[2 * i] * sums[j].re;
                even[i].im += table[2 * i] * sums[j].im;
                odd[i].re += table[2 * i + 1] * differences[j].im;
                odd[i].im += table[2 * i + 1] * differences[j].re;
            }
        }
#pragma GCC unroll 4
        for (int i = 0; i < SUMS_AT_ONCE; i++) {
            if (k + i > half)
                continue;
            NAMED(store_result)(of, k + i, even[i].re - odd[i].re, even[i].im + odd[i].im);
            NAMED(store_result)(of, p - k - i, even[i].re + odd[i].re, even[i].im - odd[i].im);
        }
    }
}

TARGET static Numbers *NAMED(transform)(const ingot_fourier_part *part, Numbers *x, Numbers *y, Numbers *room);

/* Rader's algorithm: all but the first are a cyclic convolution of numbers in the order of the powers of a generator. */
TARGET static void NAMED(transform_by_convolution)(const ingot_fourier_prime *prime, const NAMED(Prime) * of, Numbers *room) {
    int64_t others = prime->length - 1, length = prime->convolution.length;
    Numbers *x = room, *y = x + length, *rest = y + length, first = of->from[0];
    for (int64_t i = 0; i < others; i++)
        x[i] = of->from[prime->powers[i] * of->step];
    memset(x + others, 0, (size_t)(length - others) * sizeof *x);
    Numbers *found = NAMED(transform)(&prime->convolution, x, y, rest), *other = found == x ? y : x;
    of->to[0] = (Numbers){first.re + found[0].re, first.im + found[0].im};
    for (int64_t i = 0; i < length; i++) {
        float re = prime->table[2 * i], im = prime->table[2 * i + 1];
        found[i] = (Numbers){found[i].re * im + found[i].im * re, found[i].re * re - found[i].im * im};
    }
    found[0] = (Numbers){found[0].re + first.im, found[0].im + first.re};
    found = NAMED(transform)(&prime->convolution, found, other, rest);
    NAMED(store_result)(of, 1, found[0].im, found[0].re);
    for (int64_t i = 1; i < others; i++)
        NAMED(store_result)(of, prime->powers[others - i], found[i].im, found[i].re);
}

/* A pass like those above, whose radix is a larger prime. */
TARGET static void NAMED(prime_pass)(const ingot_fourier_prime *prime, const Numbers *x, Numbers *y, int64_t count,
                                     int64_t stride, const float *roots, Numbers *room) {
    int64_t radix = prime->length;
    for (int64_t p = 0; p < count; p++, roots += 2 * (radix - 1)) {
        for (int64_t q = 0; q < stride; q++) {
            NAMED(Prime)
            of = {x + q + stride * p, y + q + stride * radix * p, stride * count, stride, roots};
            if (prime->powers == NULL)
                NAMED(transform_by_sums)(prime, &of, room);
            else
                NAMED(transform_by_convolution)(prime, &of, room);
        }
    }
}

/* Returns where the result is: x or y, which are both overwritten; `room` has part->room numbers. */
TARGET static Numbers *NAMED(transform)(const ingot_fourier_part *part, Numbers *x, Numbers *y, Numbers *room) {
    int64_t count = part->length, stride = 1;
    for (int i = 0; i < part->passes; i++) {
        int radix = part->radices[i];
        const float *roots = part->roots[i], *own = radix > MAX_BUTTERFLY ? NULL : part->own + 2 * radix * radix;
        count /= radix;
        switch (radix) {
        case 2:
            NAMED(pass)(2, x, y, count, stride, roots, own);
            break;
        case 3:
            NAMED(pass)(3, x, y, count, stride, roots, own);
            break;
        case 4:
            NAMED(pass)(4, x, y, count, stride, roots, own);
            break;
        case 5:
            NAMED(pass)(5, x, y, count, stride, roots, own);
            break;
        case 7:
            NAMED(pass)(7, x, y, count, stride, roots, own);
            break;
        case 8:
            NAMED(pass)(8, x, y, count, stride, roots, own);
            break;
        case 11:
            NAMED(pass)(11, x, y, count, stride, roots, own);
            break;
        case 13:
            NAMED(pass)(13, x, y, count, stride, roots, own);
            break;
        default:
            NAMED(prime_pass)(part->primes[i], x, y, count, stride, roots, room);
        }
        stride *= radix;
        Numbers *other = x;
        x = y;
        y = other;
    }
    return x;
}
