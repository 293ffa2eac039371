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

/* Same as of_rank_by_halving(). */
AVX512 static KEY NAME(of_rank_by_halving_avx512)(const KEY *keys, int64_t count, int64_t rank, int64_t *less) {
    VECTOR lowest = SPLAT(keys[0]), highest = lowest;
    int64_t below = 0, whole = count - count % LANES_OF_KEY;
    unsigned rest = (1u << (count - whole)) - 1;
    for (int64_t i = 0; i < count; i += LANES_OF_KEY) {
        unsigned here = i < whole ? ALL_LANES : rest;
        VECTOR key = LOAD_SOME(here, keys + i);
        lowest = SMALLEST(here, lowest, key);
        highest = LARGEST(here, highest, key);
    }
    KEY low = SMALLEST_OF(lowest), high = LARGEST_OF(highest);
    while (low < high) {
        VECTOR middle = SPLAT(NAME(middle)(low, high));
        int64_t above = 0;
        for (int64_t i = 0; i < whole; i += LANES_OF_KEY)
            above += __builtin_popcount(LESS(ALL_LANES, middle, LOAD_SOME(ALL_LANES, keys + i)));
        above += __builtin_popcount(LESS(rest, middle, LOAD_SOME(rest, keys + whole)));
        int64_t some = count - above;
        if (some > rank) {
            high = NAME(middle)(low, high);
            continue;
        }
        low = NAME(middle)(low, high) + 1;
        below = some;
        if (some < rank)
            continue;
        VECTOR found = SPLAT(high); /* the smallest key above the middle */
        for (int64_t i = 0; i < count; i += LANES_OF_KEY) {
            unsigned here = i < whole ? ALL_LANES : rest;
            VECTOR key = LOAD_SOME(here, keys + i);
            found = SMALLEST(LESS(here, middle, key), found, key);
        }
        low = high = SMALLEST_OF(found);
    }
    *less = below;
    return low;
}

/* Same as filter(), four vectors at a time, because most have no such key. */
AVX512 static int64_t NAME(filter_avx512)(const KEY *keys, int64_t count, int64_t first, bool from_end, KEY limit, KEY *to,
                                          uint32_t *positions) {
    enum { TOGETHER = 4 };
    VECTOR highest = SPLAT(limit), flip = SPLAT(from_end ? -1 : 0);
    int64_t found = 0;
    for (int64_t i = 0; i < count; i += TOGETHER * LANES_OF_KEY) {
        VECTOR key[TOGETHER];
        unsigned inside[TOGETHER], any = 0;
        for (int v = 0; v < TOGETHER; v++) {
            int64_t left = count - i - v * LANES_OF_KEY;
            unsigned here = left >= LANES_OF_KEY ? ALL_LANES : left > 0 ? (1u << left) - 1 : 0;
            key[v] = _mm512_xor_si512(LOAD_SOME(here, keys + i + v * LANES_OF_KEY), flip);
            inside[v] = here & ~LESS(here, highest, key[v]);
            any |= inside[v];
        }
        if (any == 0)
            continue;
        for (int v = 0; v < TOGETHER; v++) {
            POSITIONS at = POSITION_ADD(FIRST_POSITIONS, POSITION_SPLAT((int)(uint32_t)(first + i + v * LANES_OF_KEY)));
            STORE(to + found, COMPRESS(inside[v], key[v]));
            POSITION_STORE(positions + found, POSITION_COMPRESS(inside[v], at));
            found += __builtin_popcount(inside[v]);
        }
    }
    return found;
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
