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
