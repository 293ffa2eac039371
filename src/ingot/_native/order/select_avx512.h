/* The passes of select_loop.h in AVX-512. select.c includes this for each KEY, with its instructions. Selected keys
 * are compressed in registers and stored as whole vectors, so results need room for one vector more. */

/* Same as between(). */
AVX512 static int64_t NAME(between_avx512)(const KEY *keys, int64_t count, KEY low, KEY high, KEY *to, int64_t *less) {
    VECTOR lowest = SPLAT(low), highest = SPLAT(high);
    int64_t found = 0, below = 0;
    for (int64_t i = 0; i < count; i += LANES_OF_KEY) {
        unsigned here = count - i >= LANES_OF_KEY ? ALL_LANES : (1u << (count - i)) - 1;
        VECTOR key = LOAD_SOME(here, keys + i);
        unsigned under = LESS(here, key, lowest), inside = here & ~under & ~LESS(here, highest, key);
        below += __builtin_popcount(under);
        if (inside != 0) {
            STORE(to + found, COMPRESS(inside, key));
            found += __builtin_popcount(inside);
        }
    }
    *less = below;
    return found;
}

/* Same as split(). */
AVX512 static void NAME(split_avx512)(const KEY *keys, int64_t count, KEY pivot, int64_t equal, uint32_t *few, uint32_t *ties,
                                      uint32_t *rest) {
    VECTOR middle = SPLAT(pivot);
    POSITIONS at = FIRST_POSITIONS, step = POSITION_SPLAT(LANES_OF_KEY);
    for (int64_t i = 0; i < count; i += LANES_OF_KEY) {
        unsigned here = count - i >= LANES_OF_KEY ? ALL_LANES : (1u << (count - i)) - 1;
        VECTOR key = LOAD_SOME(here, keys + i);
        unsigned less = LESS(here, key, middle), same = EQUAL(here, key, middle);
        if (less != 0) {
            POSITION_STORE(few, POSITION_COMPRESS(less, at));
            few += __builtin_popcount(less);
        }
        if (same != 0) {
            while (__builtin_popcount(same) > equal) /* only the first ones are taken */
                same ^= 1u << (31 - __builtin_clz(same));
            POSITION_STORE(ties, POSITION_COMPRESS(same, at));
            ties += __builtin_popcount(same);
            equal -= __builtin_popcount(same);
        }
        if (rest != NULL) {
            unsigned others = here & ~(less | same);
            POSITION_STORE(rest, POSITION_COMPRESS(others, at));
            rest += __builtin_popcount(others);
        }
        at = POSITION_ADD(at, step);
    }
}

/* Same as of_rank_in_few(), for up to FEW keys. */
AVX512 static KEY NAME(of_rank_in_few_avx512)(const KEY *keys, int64_t count, int64_t rank, int64_t *less) {
    VECTOR all[FEW / LANES_OF_KEY];
    unsigned here[FEW / LANES_OF_KEY];
    for (int v = 0; v < FEW / LANES_OF_KEY; v++) {
        int64_t left = count - v * LANES_OF_KEY;
        here[v] = left >= LANES_OF_KEY ? ALL_LANES : left > 0 ? (1u << left) - 1 : 0;
        all[v] = LOAD_SOME(here[v], keys + v * LANES_OF_KEY);
    }
    int64_t i = 0;
    for (;; i++) {
        VECTOR key = SPLAT(keys[i]);
        int64_t below = 0, equal = 0;
        for (int v = 0; v < FEW / LANES_OF_KEY; v++) {
            below += __builtin_popcount(LESS(here[v], all[v], key));
            equal += __builtin_popcount(EQUAL(here[v], all[v], key));
        }
        *less = below;
        if ((rank >= below && rank < below + equal) || i + 1 == count)
            return keys[i];
    }
}

/* Same as sort_few(). */
AVX512 static void NAME(sort_few_avx512)(const KEY *keys, int64_t count, KEY *sorted) {
    for (int64_t i = 0; i < count; i++) {
        VECTOR key = SPLAT(keys[i]);
        int64_t below = 0;
        for (int64_t j = 0; j < count; j += LANES_OF_KEY) {
            unsigned here = count - j >= LANES_OF_KEY ? ALL_LANES : (1u << (count - j)) - 1;
            unsigned before = i - j >= LANES_OF_KEY ? ALL_LANES : i > j ? (1u << (i - j)) - 1 : 0;
            VECTOR some = LOAD_SOME(here, keys + j);
            below += __builtin_popcount(LESS(here, some, key) | EQUAL(before, some, key));
        }
        sorted[below] = keys[i];
    }
}
