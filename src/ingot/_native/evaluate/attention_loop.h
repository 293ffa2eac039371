/* The loops of attention_step.c for one kind of machine. Included several times, each time with these defined:
 *
 * MACHINE   the end of the functions' names
 * TARGET    attributes of the functions
 * LANES     floats in a vector register
 *
 * Functions that have vectors need the attribute themselves: a compiler takes vectors apart before it inlines. */
#define JOIN_NAMES(a, b) a##_##b
#define NAME_FOR(name, machine) JOIN_NAMES(name, machine)
#define NAMED(name) NAME_FOR(name, MACHINE)

typedef float NAMED(Floats) __attribute__((vector_size(4 * LANES)));

/* The products of one row with `count` others, at most DOTS, which is known when this is compiled. Sums do not depend on it. */
TARGET INLINE void NAMED(dots_of)(const float *a, const float *const *rows, const int count, int64_t width, float *results) {
    NAMED(Floats) sums[DOTS], x, y;
#pragma GCC unroll 8
    for (int row = 0; row < count; row++)
        sums[row] = (NAMED(Floats)){0};
    int64_t i = 0;
    for (; i + LANES <= width; i += LANES) {
        memcpy(&x, a + i, sizeof x);
#pragma GCC unroll 8
        for (int row = 0; row < count; row++) {
            memcpy(&y, rows[row] + i, sizeof y);
            sums[row] += x * y;
        }
    }
#pragma GCC unroll 8
    for (int row = 0; row < count; row++) {
        float parts[LANES];
        memcpy(parts, &sums[row], sizeof parts);
        results[row] = total_of(parts, LANES);
        for (int64_t k = i; k < width; k++)
            results[row] += a[k] * rows[row][k];
    }
}

TARGET INLINE void NAMED(dots)(const float *a, const float *const *rows, int count, int64_t width, float *results) {
    int row = 0;
    for (; row + DOTS <= count; row += DOTS)
        NAMED(dots_of)(a, rows + row, DOTS, width, results + row);
    for (; row < count; row++)
        NAMED(dots_of)(a, rows + row, 1, width, results + row);
}

/* Adds some vectors of each row, times its share, to sums, which stay in registers. */
TARGET INLINE void NAMED(add_vectors)(float *sums, const float *shares, const float *const *rows, int count, int64_t from,
                                      const int vectors) {
    NAMED(Floats) found[SUM_VECTORS], x;
#pragma GCC unroll 8
    for (int vector = 0; vector < vectors; vector++)
        memcpy(&found[vector], sums + from + vector * LANES, sizeof x);
    for (int row = 0; row < count; row++) {
#pragma GCC unroll 8
        for (int vector = 0; vector < vectors; vector++) {
            memcpy(&x, rows[row] + from + vector * LANES, sizeof x);
            found[vector] += shares[row] * x;
        }
    }
#pragma GCC unroll 8
    for (int vector = 0; vector < vectors; vector++)
        memcpy(sums + from + vector * LANES, &found[vector], sizeof x);
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

/* Adds a block of keys to what one query has so far: its maximum, its total, and its sums of values. Scores behind `count` are
 * minus infinity. */
TARGET INLINE void NAMED(add_block)(float *state, float *scores, const float *const *values, int count, int64_t width) {
    float largest = largest_of(scores);
    largest = state[0] > largest ? state[0] : largest;
    float origin = largest == -INFINITY ? 0.0f : largest; /* all hidden so far: nothing to scale by */
    for (int i = 0; i < KEY_BLOCK; i++)
        scores[i] -= origin;
    exponentials(scores, KEY_BLOCK);
    float shrink = state[0] - origin;
    exponentials(&shrink, 1);
    float *sums = state + 2;
    if (shrink != 1.0f) {
        for (int64_t e = 0; e < width; e++)
            sums[e] *= shrink;
    }
    NAMED(add_rows)(sums, scores, values, count, width);
    state[0] = largest;
    state[1] = state[1] * shrink + total_of(scores, KEY_BLOCK); /* which are of no more use */
}

/* All queries that share a head of keys, on the keys of one split. */
TARGET static void NAMED(attend_split)(const AttentionStep *step, int64_t example, int64_t key_head, int64_t split,
                                       float *room) {
    int64_t width = step->width, value_width = step->value_width, sharing = step->heads / step->key_heads;
    int64_t begin = split * ATTENTION_SPLIT, end = begin + ATTENTION_SPLIT < step->keys ? begin + ATTENTION_SPLIT : step->keys;
    float *key_room = room + width, *value_room = key_room + KEY_BLOCK * width;
    for (int64_t row = 0; row < sharing * step->queries; row++) {
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
        for (int64_t row = 0; row < sharing * step->queries; row++) {
            int64_t head = key_head * sharing + row / step->queries, query = row % step->queries;
            const float *q = row_of(&step->q, step->element, example, head, query, width, room);
            float scores[KEY_BLOCK];
            NAMED(dots)(q, keys, count, width, scores);
            for (int i = 0; i < count; i++)
                scores[i] *= step->scale;
            apply_mask(step, scores, example, head, query, first, count);
            for (int i = count; i < KEY_BLOCK; i++)
                scores[i] = -INFINITY;
            NAMED(add_block)(step->partial + state_index(step, split, example, head, query), scores, values, count,
                             value_width);
        }
    }
}

#undef MACHINE
#undef TARGET
#undef LANES
#undef JOIN_NAMES
#undef NAME_FOR
#undef NAMED
