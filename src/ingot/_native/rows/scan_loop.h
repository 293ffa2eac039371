/* Scans of elements of one TYPE that accumulate in ACC. scan_kernels.c includes this for each type, with NAME(x) to
 * make function names unique, and COMBINE(a, b) and IDENTITY. BLOCK(x) makes the names of the functions that read and
 * write blocks of such elements, and COMBINE_LANES(x, a, b) combines vectors of them, where x is `lanes` for AVX-512 and
 * `whole` for AVX2; types without these have no scans in lanes.
 * BRANCHES says that COMBINE branches on elements; rows are then never scanned one by one. */

/* Interleaves several segments one cache line at a time: at power-of-two lengths, all segments fall into the same L1
 * set, which holds no more lines than that. */
#define SCAN_SEGMENTS(in, out)                                                      \
    for (int64_t begin = 0; begin < count; begin += LINE / (int64_t)sizeof(TYPE)) { \
        int64_t end = begin + LINE / (int64_t)sizeof(TYPE);                         \
        end = end < count ? end : count;                                            \
        for (int first = 0; first < SEGMENTS; first += IN_STEP) {                   \
            ACC a[IN_STEP];                                                         \
            for (int s = 0; s < IN_STEP; s++)                                       \
                a[s] = acc[first + s];                                              \
            for (int64_t i = begin; i < end; i++)                                   \
                for (int s = 0; s < IN_STEP; s++) {                                 \
                    TYPE x;                                                         \
                    memcpy(&x, from[first + s] + i * (in), sizeof x);               \
                    a[s] = COMBINE(a[s], (ACC)x);                                   \
                    if (to != NULL) {                                               \
                        x = (TYPE)a[s];                                             \
                        memcpy(to[first + s] + i * (out), &x, sizeof x);            \
                    }                                                               \
                }                                                                   \
            for (int s = 0; s < IN_STEP; s++)                                       \
                acc[first + s] = a[s];                                              \
        }                                                                           \
    }

INLINE void NAME(in_step)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count, ACC *acc) {
    if (in == (int64_t)sizeof(TYPE) && out == (int64_t)sizeof(TYPE)) {
        SCAN_SEGMENTS((int64_t)sizeof(TYPE), (int64_t)sizeof(TYPE))
    } else {
        SCAN_SEGMENTS(in, out)
    }
}

/* Scans segments of `count` elements each in lockstep, so that their dependency chains overlap. `values` holds the
 * carries and becomes those after the last elements. Nothing is stored if `to` is NULL. */
FOR_EACH_MACHINE
static void NAME(segments)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count, void *values) {
    ACC acc[SEGMENTS];
    memcpy(acc, values, sizeof acc);
    if (to == NULL)
        NAME(in_step)(from, NULL, in, out, count, acc);
    else
        NAME(in_step)(from, to, in, out, count, acc);
    memcpy(values, acc, sizeof acc);
}

#if defined(AVX512) && defined(BLOCK)
typedef TYPE NAME(elements) __attribute__((vector_size(SEGMENTS * sizeof(TYPE))));
typedef ACC NAME(lanes) __attribute__((vector_size(SEGMENTS * sizeof(ACC))));

/* The next `width` elements of each segment. */
AVX512 INLINE void NAME(block)(const char *const *from, char *const *to, int64_t at, int width, NAME(lanes) * acc) {
    NAME(elements) block[SEGMENTS];
    BLOCK(read_part)(from, at, width, block);
    for (int i = 0; i < width; i++) {
        *acc = COMBINE_LANES(lanes, *acc, __builtin_convertvector(block[i], NAME(lanes)));
        block[i] = __builtin_convertvector(*acc, NAME(elements));
    }
    if (to != NULL)
        BLOCK(write_part)(to, at, width, block);
}

AVX512 INLINE void NAME(blocks)(const char *const *from, char *const *to, int64_t count, void *values) {
    NAME(lanes) acc;
    int64_t at = 0;
    memcpy(&acc, values, sizeof acc);
    for (; at + SEGMENTS <= count; at += SEGMENTS)
        NAME(block)(from, to, at, SEGMENTS, &acc);
    if (at < count)
        NAME(block)(from, to, at, (int)(count - at), &acc);
    memcpy(values, &acc, sizeof acc);
}

/* Same as segments(), a lane for each. */
AVX512 static void NAME(segments_in_lanes)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count,
                                           void *values) {
    if (in != (int64_t)sizeof(TYPE) || (to != NULL && out != (int64_t)sizeof(TYPE)))
        NAME(segments)(from, to, in, out, count, values);
    else if (to == NULL)
        NAME(blocks)(from, NULL, count, values);
    else
        NAME(blocks)(from, to, count, values);
}

enum { NAME(width) = 32 / sizeof(ACC) };
typedef TYPE NAME(few_elements) __attribute__((vector_size(NAME(width) * sizeof(TYPE))));
typedef ACC NAME(few_lanes) __attribute__((vector_size(32)));

/* The next elements of some segments, as many as there are lanes. */
AVX2 INLINE void NAME(whole_block)(const char *const *from, char *const *to, int64_t at, NAME(few_lanes) * acc) {
    NAME(few_elements) block[NAME(width)];
    BLOCK(read_whole)(from, at, block);
    for (int i = 0; i < NAME(width); i++) {
        *acc = COMBINE_LANES(whole, *acc, __builtin_convertvector(block[i], NAME(few_lanes)));
        block[i] = __builtin_convertvector(*acc, NAME(few_elements));
    }
    if (to != NULL)
        BLOCK(write_whole)(to, at, block);
}

/* A cache line of each segment at a time; the elements after the last whole line one by one. */
AVX2 INLINE void NAME(lines)(const char *const *from, char *const *to, int64_t count, void *values) {
    enum { GROUPS = SEGMENTS / NAME(width), LENGTH = LINE / sizeof(TYPE) };
    NAME(few_lanes) acc[GROUPS];
    const char *rest[SEGMENTS];
    char *results[SEGMENTS];
    int64_t at = 0;
    memcpy(acc, values, sizeof acc);
    for (; at + LENGTH <= count; at += LENGTH)
        for (int group = 0; group < GROUPS; group++)
            for (int i = 0; i < LENGTH; i += NAME(width)) {
                int first = group * NAME(width);
                NAME(whole_block)(from + first, to == NULL ? NULL : to + first, at + i, acc + group);
            }
    memcpy(values, acc, sizeof acc);
    for (int s = 0; s < SEGMENTS; s++) {
        rest[s] = from[s] + at * (int64_t)sizeof(TYPE);
        results[s] = to == NULL ? NULL : to[s] + at * (int64_t)sizeof(TYPE);
    }
    NAME(segments)(rest, to == NULL ? NULL : results, sizeof(TYPE), sizeof(TYPE), count - at, values);
}

/* Same as segments(), in lanes of vectors of 32 bytes. */
AVX2 static void NAME(segments_in_few_lanes)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count,
                                             void *values) {
    if (in != (int64_t)sizeof(TYPE) || (to != NULL && out != (int64_t)sizeof(TYPE)))
        NAME(segments)(from, to, in, out, count, values);
    else if (to == NULL)
        NAME(lines)(from, NULL, count, values);
    else
        NAME(lines)(from, to, count, values);
}
#define IN_LANES NAME(segments_in_lanes), NAME(segments_in_few_lanes)
#else
#define IN_LANES NULL, NULL
#endif

/* Scans one segment. */
static void NAME(segment)(const char *from, char *to, int64_t in, int64_t out, int64_t count, void *value) {
    ACC acc;
    memcpy(&acc, value, sizeof acc);
    for (int64_t i = 0; i < count; i++) {
        TYPE x;
        memcpy(&x, from + i * in, sizeof x);
        acc = COMBINE(acc, (ACC)x);
        if (to != NULL) {
            x = (TYPE)acc;
            memcpy(to + i * out, &x, sizeof x);
        }
    }
    memcpy(value, &acc, sizeof acc);
}

#ifndef BRANCHES
#define SCAN_ROWS(in, out)                             \
    for (int64_t row = 0; row < count; row++) {        \
        const char *elements = from + row * in_row;    \
        char *results = to + row * out_row;            \
        ACC acc = IDENTITY;                            \
        for (int64_t i = 0; i < length; i++) {         \
            TYPE x;                                    \
            memcpy(&x, elements + i * (in), sizeof x); \
            acc = COMBINE(acc, (ACC)x);                \
            x = (TYPE)acc;                             \
            memcpy(results + i * (out), &x, sizeof x); \
        }                                              \
    }

/* Scans rows one by one: if they are short, the processor begins the next ones while one is computed. */
static void NAME(rows)(const char *from, char *to, const int64_t *in, const int64_t *out, int64_t length, int64_t count) {
    int64_t in_row = in[0], out_row = out[0], in_step = in[1], out_step = out[1], size = sizeof(TYPE);
    if (in_step == size && out_step == size) {
        SCAN_ROWS(size, size)
    } else {
        SCAN_ROWS(in_step, out_step)
    }
}
#define IN_ROWS NAME(rows)
#else
#define IN_ROWS NULL
#endif

/* Scans up to COLUMNS rows whose elements are adjacent in memory, vectorised across the rows. */
FOR_EACH_MACHINE
static void NAME(columns)(const char *from, char *to, int64_t in, int64_t out, int64_t count, int64_t width) {
    ACC carry[COLUMNS], acc[COLUMNS], own[COLUMNS];
    for (int64_t c = 0; c < COLUMNS; c++)
        carry[c] = acc[c] = own[c] = IDENTITY;
    for (int64_t begin = 0; begin < count; begin += SCAN_CHUNK) {
        int64_t end = count - begin < SCAN_CHUNK ? count : begin + SCAN_CHUNK;
        bool is_last = end == count;
        for (int64_t i = begin; i < end; i++) {
            const char *restrict row = from + i * in;
            char *restrict results = to + i * out;
            for (int64_t c = 0; c < width; c++) {
                TYPE x;
                memcpy(&x, row + c * (int64_t)sizeof x, sizeof x);
                acc[c] = COMBINE(acc[c], (ACC)x);
                TYPE result = (TYPE)acc[c];
                memcpy(results + c * (int64_t)sizeof x, &result, sizeof x);
            }
            if (!is_last)
                for (int64_t c = 0; c < width; c++) {
                    TYPE x;
                    memcpy(&x, row + c * (int64_t)sizeof x, sizeof x);
                    own[c] = COMBINE(own[c], (ACC)x);
                }
        }
        for (int64_t c = 0; c < width; c++) {
            acc[c] = carry[c] = COMBINE(carry[c], own[c]);
            own[c] = IDENTITY;
        }
    }
}

static void NAME(start)(void *values, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        ACC identity = IDENTITY;
        memcpy((char *)values + i * (int64_t)sizeof identity, &identity, sizeof identity);
    }
}

static void NAME(follow)(void *value, const void *next) {
    ACC a, b;
    memcpy(&a, value, sizeof a);
    memcpy(&b, next, sizeof b);
    a = COMBINE(a, b);
    memcpy(value, &a, sizeof a);
}

static const ingot_scan_kernel NAME(kernel) = {
    NAME(segments), IN_LANES, NAME(segment), IN_ROWS, NAME(columns), NAME(start), NAME(follow), sizeof(ACC),
};

#undef SCAN_SEGMENTS
#undef SCAN_ROWS
#undef IN_ROWS
#undef BRANCHES
#undef IN_LANES
#undef TYPE
#undef ACC
#undef NAME
#undef COMBINE
#undef IDENTITY
#undef BLOCK
#undef COMBINE_LANES
