/* Selection among keys of one type. select.c includes this for each KEY, with NAME(x) to make function names unique. */

static int NAME(compare)(const void *a, const void *b) {
    KEY x = *(const KEY *)a, y = *(const KEY *)b;
    return x < y ? -1 : x > y;
}

/* The key of that rank among not too many: the range of values that holds it is halved until it holds one key, or
 * until as many keys are below its middle as come before the wanted one. No branch depends on a single key. `less`
 * becomes the number of smaller keys. */
FOR_EACH_MACHINE
static KEY NAME(of_rank_by_halving_plain)(const KEY *keys, int64_t count, int64_t rank, int64_t *less) {
    KEY low = keys[0], high = keys[0];
    int64_t below = 0;
    for (int64_t i = 1; i < count; i++) {
        low = keys[i] < low ? keys[i] : low;
        high = keys[i] > high ? keys[i] : high;
    }
    while (low < high) {
        KEY middle = NAME(middle)(low, high), some = 0;
        for (int64_t i = 0; i < count; i++)
            some += keys[i] <= middle;
        if (some > rank) {
            high = middle;
        } else {
            low = middle + 1;
            below = some;
        }
        if (some == rank) { /* the smallest key above the middle */
            KEY found = KEY_MAX;
            for (int64_t i = 0; i < count; i++)
                found = keys[i] > middle && keys[i] < found ? keys[i] : found;
            low = high = found;
        }
    }
    *less = below;
    return low;
}

/* Sorts a few keys, which takes as many comparisons whatever they are. */
FOR_EACH_MACHINE
static void NAME(sort_few_plain)(const KEY *keys, int64_t count, KEY *sorted) {
    for (int64_t i = 0; i < count; i++) {
        KEY below = 0;
        for (int64_t j = 0; j < i; j++)
            below += keys[j] <= keys[i];
        for (int64_t j = i + 1; j < count; j++)
            below += keys[j] < keys[i];
        sorted[below] = keys[i];
    }
}

static KEY NAME(of_rank_by_halving)(const KEY *keys, int64_t count, int64_t rank, int64_t *less) {
#ifdef AVX512
    if (ingot_has_avx512())
        return NAME(of_rank_by_halving_avx512)(keys, count, rank, less);
#endif
    return NAME(of_rank_by_halving_plain)(keys, count, rank, less);
}

static void NAME(sort_few)(const KEY *keys, int64_t count, KEY *sorted) {
#ifdef AVX512
    if (ingot_has_avx512()) {
        NAME(sort_few_avx512)(keys, count, sorted);
        return;
    }
#endif
    NAME(sort_few_plain)(keys, count, sorted);
}

/* Compacts the keys in [low, high] into `to`, which may be `keys` itself. Returns how many there are, and in `less`
 * how many are below `low`. */
FOR_EACH_MACHINE
static int64_t NAME(between_plain)(const KEY *keys, int64_t count, KEY low, KEY high, KEY *to, int64_t *less) {
    int64_t found = 0, below = 0, i = 0;
    for (; i + BLOCK <= count; i += BLOCK) {
        KEY inside = 0, under = 0;
        for (int64_t j = i; j < i + BLOCK; j++) {
            under += keys[j] < low;
            inside += (keys[j] >= low) & (keys[j] <= high);
        }
        below += under;
        if (inside == 0)
            continue;
        for (int64_t j = i; j < i + BLOCK; j++) {
            KEY key = keys[j];
            to[found] = key;
            found += (key >= low) & (key <= high);
        }
    }
    for (; i < count; i++) {
        KEY key = keys[i];
        below += key < low;
        to[found] = key;
        found += (key >= low) & (key <= high);
    }
    *less = below;
    return found;
}

static int64_t NAME(between)(const KEY *keys, int64_t count, KEY low, KEY high, KEY *to, int64_t *less) {
#ifdef AVX512
    if (ingot_has_avx512())
        return NAME(between_avx512)(keys, count, low, high, to, less);
#endif
    return NAME(between_plain)(keys, count, low, high, to, less);
}

/* Finds two keys that most probably bracket the key of `rank`, from a sorted sample; the same key twice if
 * `is_narrow`. */
static void NAME(bracket)(const KEY *keys, int64_t count, int64_t rank, bool is_narrow, KEY *low, KEY *high) {
    KEY sample[SAMPLE], sorted[SAMPLE];
    int64_t size = count > MEDIUM ? SAMPLE : SMALL_SAMPLE, stride = count / size;
    uint64_t random = 0x9E3779B97F4A7C15;
    for (int64_t i = 0; i < size; i++) {
        random = random * 6364136223846793005u + 1442695040888963407u;
        sample[i] = keys[i * stride + (int64_t)(((random >> 32) * (uint64_t)stride) >> 32)];
    }
    NAME(sort_few)(sample, size, sorted);
    double share = (double)rank / (double)count, expected = share * (double)size;
    double margin = is_narrow ? 0 : MARGIN * sqrt(expected * (1 - share)) + 1;
    int64_t left = (int64_t)floor(expected - margin), right = is_narrow ? left : (int64_t)ceil(expected + margin);
    *low = left < 0 ? KEY_MIN : sorted[left];
    *high = right >= size ? KEY_MAX : sorted[right];
}

/* Fallback by sorting when samples keep missing, so that adversarial input costs no more than O(n log n). */
static KEY NAME(of_rank_sorted)(const KEY *keys, int64_t count, int64_t rank, KEY *to, int64_t *less) {
    memcpy(to, keys, (size_t)count * sizeof *keys);
    qsort(to, (size_t)count, sizeof *keys, NAME(compare));
    KEY found = to[rank];
    while (rank > 0 && to[rank - 1] == found)
        rank--;
    *less += rank;
    return found;
}

/* The key of that rank. Each scratch buffer has room for all keys; `less` becomes the number of smaller keys. */
static KEY NAME(of_rank)(const KEY *keys, int64_t count, int64_t rank, KEY *scratch[2], int64_t *less) {
    bool is_narrow = false; /* the last bracket held all keys */
    *less = 0;
    for (int round = 0; count > HALVED; round++) {
        KEY low, high, *to = scratch[round % 2];
        int64_t below, inside, under;
        if (round == MAX_ROUNDS)
            return NAME(of_rank_sorted)(keys, count, rank, to, less);
        NAME(bracket)(keys, count, rank, is_narrow, &low, &high);
        inside = NAME(between)(keys, count, low, high, to, &below);
        if (rank < below) { /* the sample missed: the key is below the bracket */
            inside = NAME(between)(keys, count, KEY_MIN, low - 1, to, &under);
            below = 0;
        } else if (rank >= below + inside) { /* or above it */
            inside = NAME(between)(keys, count, high + 1, KEY_MAX, to, &below);
        } else if (low == high) {
            *less += below;
            return low;
        }
        *less += below;
        rank -= below;
        keys = to;
        is_narrow = inside == count;
        count = inside;
    }
    int64_t below;
    KEY found = NAME(of_rank_by_halving)(keys, count, rank, &below);
    *less += below;
    return found;
}

/* Collects the positions of the keys below the pivot (`few`), of the first `equal` keys equal to it (`ties`) and,
 * unless `rest` is NULL, of all others. Each needs room for one vector more. */
FOR_EACH_MACHINE
static void NAME(split_plain)(const KEY *keys, int64_t count, KEY pivot, int64_t equal, uint32_t *few, uint32_t *ties,
                              uint32_t *rest) {
    int64_t taken = 0, tied = 0, left = 0, i = 0;
    while (i < count) {
        if (i + BLOCK <= count) {
            KEY some = 0;
            for (int64_t j = i; j < i + BLOCK; j++)
                some += keys[j] <= pivot;
            if (some == 0) {
                if (rest != NULL)
                    for (int64_t j = 0; j < BLOCK; j++)
                        rest[left + j] = (uint32_t)(i + j);
                left += BLOCK;
                i += BLOCK;
                continue;
            }
        }
        int64_t end = i + BLOCK < count ? i + BLOCK : count;
        for (; i < end; i++) {
            bool is_less = keys[i] < pivot, is_tie = (keys[i] == pivot) & (tied < equal);
            few[taken] = (uint32_t)i;
            taken += is_less;
            ties[tied] = (uint32_t)i;
            tied += is_tie;
            if (rest != NULL)
                rest[left] = (uint32_t)i;
            left += !(is_less | is_tie);
        }
    }
}

static void NAME(split)(const KEY *keys, int64_t count, KEY pivot, int64_t equal, uint32_t *few, uint32_t *ties,
                        uint32_t *rest) {
#ifdef AVX512
    if (ingot_has_avx512()) {
        NAME(split_avx512)(keys, count, pivot, equal, few, ties, rest);
        return;
    }
#endif
    NAME(split_plain)(keys, count, pivot, equal, few, ties, rest);
}

/* Inverts the order of the keys. */
FOR_EACH_MACHINE
static void NAME(invert)(KEY *keys, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        keys[i] = ~keys[i];
}

/* Collects the positions of the `chosen` smallest keys, the largest of them last, and of the others unless `rest` is
 * NULL. If `is_one`, only that of the largest of them. */
static void NAME(divide)(const KEY *keys, int64_t count, int64_t chosen, bool is_one, KEY *scratch[2], uint32_t *few,
                         uint32_t *ties, uint32_t *rest) {
    int64_t less;
    KEY pivot = NAME(of_rank)(keys, count, chosen - 1, scratch, &less);
    if (is_one) {
        uint32_t at = 0;
        while (keys[at] != pivot)
            at++;
        few[chosen - 1] = at;
        return;
    }
    NAME(split)(keys, count, pivot, chosen - less, few, ties, rest);
    memcpy(few + less, ties, (size_t)(chosen - less) * sizeof *few);
}

/* Keeps the `chosen` smallest of the keys collected so far, with their positions, in order, and returns the largest
 * key that would still be one of them. */
static KEY NAME(best)(KEY *keys, uint32_t *positions, int64_t *count, int64_t chosen, KEY *scratch[2]) {
    int64_t less, kept = 0;
    KEY pivot = NAME(of_rank)(keys, *count, chosen - 1, scratch, &less);
    int64_t ties = chosen - less;
    for (int64_t i = 0; i < *count; i++) {
        bool is_tie = keys[i] == pivot, stays = keys[i] < pivot || (is_tie && ties > 0);
        ties -= is_tie;
        keys[kept] = keys[i];
        positions[kept] = positions[i];
        kept += stays;
    }
    *count = kept;
    return pivot == KEY_MIN ? pivot : pivot - 1; /* later ones that are equal are not needed */
}

/* Collects the keys up to a limit, inverted before if `from_end`, and their positions, of which that of the first key
 * is `first`. Both need room for one vector more. */
FOR_EACH_MACHINE
static int64_t NAME(filter_plain)(const KEY *keys, int64_t count, int64_t first, bool from_end, KEY limit, KEY *to,
                                  uint32_t *positions) {
    KEY flip = from_end ? -1 : 0;
    int64_t found = 0;
    for (int64_t i = 0; i < count; i++) {
        KEY key = keys[i] ^ flip;
        to[found] = key;
        positions[found] = (uint32_t)(first + i);
        found += key <= limit;
    }
    return found;
}

static int64_t NAME(filter)(const KEY *keys, int64_t count, int64_t first, bool from_end, KEY limit, KEY *to,
                            uint32_t *positions) {
#ifdef AVX512
    if (ingot_has_avx512())
        return NAME(filter_avx512)(keys, count, first, from_end, limit, to, positions);
#endif
    return NAME(filter_plain)(keys, count, first, from_end, limit, to, positions);
}
