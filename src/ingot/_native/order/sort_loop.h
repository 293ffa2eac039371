/* Passes over items of one type. sort.c includes this for each ITEM, with NAME(x) to make function names unique, the
 * type SIGNED of keys as they are loaded, KEY_OF(item), MAKE(key, position), and RESULT(row, item). */

/* Makes items of the elements from `begin` to `end` of a row. */
static void NAME(load)(const Row *row, int64_t begin, int64_t end) {
    const Traits *traits = row->traits;
    SIGNED keys[LOADED], limit = (SIGNED)traits->limit;
    ITEM *items = row->items[0];
    for (int64_t first = begin; first < end; first += LOADED) {
        int64_t count = smaller(LOADED, end - first);
        ingot_load_keys(traits->dtype, row->from + first * row->in, row->in, count, keys);
        for (int64_t i = 0; i < count; i++) {
            SIGNED key = keys[i] < limit ? keys[i] : limit;
            key += (key == -1) & row->zeros_are_equal;
            items[first + i] = MAKE((uint64_t)key + traits->bias, first + i);
        }
    }
}

/* Counts the values of a byte. Two tables, because increments of one counter wait for each other. */
static void NAME(count)(const Row *row, int64_t begin, int64_t end, int shift, int64_t *counts) {
    const ITEM *items = row->items[0];
    uint32_t even[VALUES] = {0}, odd[VALUES] = {0};
    int64_t i = begin;
    for (; i + 1 < end; i += 2) {
        even[KEY_OF(items[i]) >> shift & (VALUES - 1)]++;
        odd[KEY_OF(items[i + 1]) >> shift & (VALUES - 1)]++;
    }
    if (i < end)
        even[KEY_OF(items[i]) >> shift & (VALUES - 1)]++;
    for (int value = 0; value < VALUES; value++)
        counts[value] = (int64_t)even[value] + odd[value];
}

/* Moves items to where `next` says for each value of a byte. */
static void NAME(move)(const Row *row, int64_t begin, int64_t end, int shift, int64_t *next) {
    const ITEM *items = row->items[0];
    ITEM *to = row->items[1];
    for (int64_t i = begin; i < end; i++)
        to[next[KEY_OF(items[i]) >> shift & (VALUES - 1)]++] = items[i];
}

/* Writes results of `size` bytes, which are constant where it is called. */
INLINE void NAME(write_sized)(const Row *row, int64_t begin, int64_t end, size_t size) {
    const ITEM *items = row->items[0];
    for (int64_t i = begin; i < end; i++) {
        uint64_t result = RESULT(row, items[i]);
        memcpy(row->to + i * row->out, &result, size);
    }
}

static void NAME(write)(const Row *row, int64_t begin, int64_t end) {
    switch (row->positions ? (int)sizeof(uint32_t) : row->traits->itemsize) {
    case 1:
        NAME(write_sized)(row, begin, end, 1);
        break;
    case 2:
        NAME(write_sized)(row, begin, end, 2);
        break;
    case 4:
        NAME(write_sized)(row, begin, end, 4);
        break;
    default:
        NAME(write_sized)(row, begin, end, 8);
    }
}

static const Passes NAME(passes) = {NAME(load), NAME(count), NAME(move), NAME(write), sizeof(ITEM)};

#undef ITEM
#undef SIGNED
#undef NAME
#undef KEY_OF
#undef MAKE
#undef RESULT
