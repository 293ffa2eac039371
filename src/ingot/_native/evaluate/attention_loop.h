/* The loops of attention_step.c for one kind of machine. Included several times, each time with these defined:
 *
 * MACHINE   the end of the functions' names
 * TARGET    attributes of the functions
 * LANES     floats in a vector register
 * PAIRS_LOW, PAIRS_HIGH, HALVES_LOW, HALVES_HIGH   lanes of two vectors x and y, for each 128 bits: x0 y0 x1 y1, x2 y2 x3 y3,
 * x0 x1 y0 y1 and x2 x3 y2 y3
 *
 * Functions that have vectors need the attribute themselves: a compiler takes vectors apart before it inlines. */
#define JOIN_NAMES(a, b) a##_##b
#define NAME_FOR(name, machine) JOIN_NAMES(name, machine)
#define NAMED(name) NAME_FOR(name, MACHINE)

typedef float NAMED(Floats) __attribute__((vector_size(4 * LANES)));

/* The sums of the lanes of four vectors. */
TARGET INLINE Four NAMED(sums_of_four)(const NAMED(Floats) * x) {
    NAMED(Floats) low = SHUFFLE(x[0], x[1], PAIRS_LOW) + SHUFFLE(x[0], x[1], PAIRS_HIGH);
    NAMED(Floats) high = SHUFFLE(x[2], x[3], PAIRS_LOW) + SHUFFLE(x[2], x[3], PAIRS_HIGH);
    NAMED(Floats) sums = SHUFFLE(low, high, HALVES_LOW) + SHUFFLE(low, high, HALVES_HIGH); /* of each 128 bits */
    Four total, more;
    memcpy(&total, &sums, sizeof total);
#pragma GCC unroll 4
    for (int i = 4; i < LANES; i += 4) {
        memcpy(&more, (const float *)&sums + i, sizeof more);
        total += more;
    }
    return total;
}

/* The products of one row with `count` others. Some more results, up to a multiple of DOTS, are written. */
TARGET INLINE void NAMED(dots)(const float *a, const float *const *rows, int count, int64_t width, float *results) {
    for (int first = 0; first < count; first += DOTS) {
        const float *const *some = rows + first;
        NAMED(Floats) sums[DOTS] = {{0}}, x, y;
        int64_t i = 0;
        for (; i + LANES <= width; i += LANES) {
            memcpy(&x, a + i, sizeof x);
#pragma GCC unroll 8
            for (int row = 0; row < DOTS; row++) {
                memcpy(&y, some[row] + i, sizeof y);
                sums[row] += x * y;
            }
        }
        Four totals = NAMED(sums_of_four)(sums);
        memcpy(results + first, &totals, sizeof totals);
        for (int row = 0; row < DOTS && i < width; row++) {
            for (int64_t k = i; k < width; k++)
                results[first + row] += a[k] * some[row][k];
        }
    }
}

/* Adds some vectors of each row, times its share, to sums, which stay in registers: those of even and of odd rows apart, since
 * an addition waits for the one before it. */
TARGET INLINE void NAMED(add_vectors)(float *sums, const float *shares, const float *const *rows, int count, int64_t from,
                                      const int vectors) {
    NAMED(Floats) even[SUM_VECTORS], odd[SUM_VECTORS], x;
#pragma GCC unroll 8
    for (int vector = 0; vector < vectors; vector++) {
        memcpy(&even[vector], sums + from + vector * LANES, sizeof x);
        odd[vector] = (NAMED(Floats)){0};
    }
    int row = 0;
    for (; row + 2 <= count; row += 2) {
#pragma GCC unroll 8
        for (int vector = 0; vector < vectors; vector++) {
            memcpy(&x, rows[row] + from + vector * LANES, sizeof x);
            even[vector] += shares[row] * x;
            memcpy(&x, rows[row + 1] + from + vector * LANES, sizeof x);
            odd[vector] += shares[row + 1] * x;
        }
    }
#pragma GCC unroll 8
    for (int vector = 0; vector < vectors; vector++) {
        if (row < count) {
            memcpy(&x, rows[row] + from + vector * LANES, sizeof x);
            even[vector] += shares[row] * x;
        }
        even[vector] += odd[vector];
        memcpy(sums + from + vector * LANES, &even[vector], sizeof x);
    }
}

TARGET INLINE void NAMED(add_rows)(float *sums, const float *shares, const float *const *rows, int count, int64_t width) {
    int64_t e = 0;
    for (; e + SUM_VECTORS * LANES <= width; e += SUM_VECTORS * LANES)
        NAMED(add_vectors)(sums, shares, rows, count, e, SUM_VECTORS);
    for (; e + LANES <= width; e += LANES)
        NAMED(add_vectors)(sums, shares, rows, count, e, 1);
    for (int row = 0; row < count; row++) {
        for (int64_t k = e; k < width; k++)
            sums[k] += shares[row] * rows[row][k];
    }
}

/* Makes the scores of a block of keys the shares of their values in the result of one query, whose maximum and total so far
 * they change, and scales the sums of values so far. Scores behind the last key are minus infinity. */
TARGET INLINE void NAMED(shares_of)(float *state, float *scores, int64_t width) {
    float largest = largest_of(scores);
    largest = state[0] > largest ? state[0] : largest;
    float origin = largest == -INFINITY ? 0.0f : largest; /* all hidden so far: nothing to scale by */
    for (int i = 0; i < KEY_BLOCK; i++)
        scores[i] -= origin;
    exponentials(scores, KEY_BLOCK);
    float shrink = state[0] - origin;
    exponentials(&shrink, 1);
    if (shrink != 1.0f) {
        for (int64_t e = 0; e < width; e++)
            state[2 + e] *= shrink;
    }
    state[0] = largest;
    state[1] = state[1] * shrink + total_of(scores, KEY_BLOCK);
}

/* All queries that share a head of keys, on the keys of one split. */
TARGET static void NAMED(attend_split)(const AttentionStep *step, int64_t example, int64_t key_head, int64_t split,
                                       float *room) {
    int64_t width = step->width, value_width = step->value_width, sharing = step->heads / step->key_heads;
    int64_t begin = split * ATTENTION_SPLIT, end = begin + ATTENTION_SPLIT < step->keys ? begin + ATTENTION_SPLIT : step->keys;
    int64_t rows = sharing * step->queries;
    float *key_room = room + width, *value_room = key_room + KEY_BLOCK * width;
    for (int64_t row = 0; row < rows; row++) {
        float *state =
            step->partial + state_index(step, split, example, key_head * sharing + row / step->queries, row % step->queries);
        memset(state, 0, sizeof *state * (size_t)(value_width + 2));
        state[0] = -INFINITY;
    }
    for (int64_t first = begin; first < end; first += KEY_BLOCK) {
        int count = (int)(end - first < KEY_BLOCK ? end - first : KEY_BLOCK);
        const float *keys[KEY_BLOCK], *values[KEY_BLOCK];
        for (int i = 0; i < count; i++) {
            keys[i] = row_of(&step->k, step->element, example, key_head, first + i, width, key_room + i * width);
            values[i] =
                row_of(&step->v, step->element, example, key_head, first + i, value_width, value_room + i * value_width);
        }
        for (int i = count; i % DOTS != 0; i++)
            keys[i] = keys[count - 1];
        for (int64_t top = 0; top < rows; top += QUERY_BLOCK) {
            float scores[QUERY_BLOCK][KEY_BLOCK], *states[QUERY_BLOCK];
            int height = (int)(rows - top < QUERY_BLOCK ? rows - top : QUERY_BLOCK);
            for (int row = 0; row < height; row++) {
                int64_t head = key_head * sharing + (top + row) / step->queries, query = (top + row) % step->queries;
                const float *q = row_of(&step->q, step->element, example, head, query, width, room);
                NAMED(dots)(q, keys, count, width, scores[row]);
                for (int i = 0; i < count; i++)
                    scores[row][i] *= step->scale;
                apply_mask(step, scores[row], example, head, query, first, count);
                for (int i = count; i < KEY_BLOCK; i++)
                    scores[row][i] = -INFINITY;
                states[row] = step->partial + state_index(step, split, example, head, query);
            }
            for (int row = 0; row < height; row++)
                NAMED(shares_of)(states[row], scores[row], value_width);
            for (int row = 0; row < height; row++)
                NAMED(add_rows)(states[row] + 2, scores[row], values, count, value_width);
        }
    }
}

#undef MACHINE
#undef TARGET
#undef LANES
#undef PAIRS_LOW
#undef PAIRS_HIGH
#undef HALVES_LOW
#undef HALVES_HIGH
#undef JOIN_NAMES
#undef NAME_FOR
#undef NAMED
