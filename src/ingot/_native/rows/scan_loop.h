/* Scans of elements of one TYPE that are combined as ACC: scan_kernels.c includes this for each, with NAME(x) to tell the
 * functions apart, and COMBINE(a, b) and IDENTITY. */

/* A cache line of some segments after the other: lengths that are powers of two put all of them into the same set of L1, which
 * holds no more. */
#define SCAN_SEGMENTS(in, out)                                                      \
    for (int64_t begin = 0; begin < count; begin += LINE / (int64_t)sizeof(TYPE)) { \
        int64_t end = begin + LINE / (int64_t)sizeof(TYPE);                         \
        end = end < count ? end : count;                                            \
        for (int first = 0; first < TOGETHER; first += IN_STEP) {                   \
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

/* Segments of as many elements each, in step: their chains of operations do not wait for each other. `values` are the results
 * before the first elements, and become those of the last. Nothing is stored if `to` is NULL. */
FOR_EACH_MACHINE
static void NAME(segments)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count, void *values) {
    ACC acc[TOGETHER];
    memcpy(acc, values, sizeof acc);
    if (to == NULL)
        NAME(in_step)(from, NULL, in, out, count, acc);
    else
        NAME(in_step)(from, to, in, out, count, acc);
    memcpy(values, acc, sizeof acc);
}

/* One segment. */
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

/* Rows whose elements lie side by side, up to COLUMNS of them, in vectors. */
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

static const ingot_scan_kernel NAME(kernel) = {NAME(segments), NAME(segment), NAME(columns),
                                               NAME(start),    NAME(follow),  sizeof(ACC)};

#undef SCAN_SEGMENTS
#undef TYPE
#undef ACC
#undef NAME
#undef COMBINE
#undef IDENTITY
