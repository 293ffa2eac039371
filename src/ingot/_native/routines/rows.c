/* Calls of routines on rows: scans, and searches in sorted rows. */
#include "routines/routine.h"

#include <string.h>

#include "rows/scan.h"
#include "search/vectors.h"
#include "threads/interrupt.h"
#include "tuning.h"

/* Contiguous rows along the middle axis of three. */
static ingot_rows contiguous_rows(char *data, int64_t length, int64_t behind, int64_t item) {
    ingot_rows rows = {.data = data};
    rows.strides[0] = length * behind * item;
    rows.strides[1] = behind * item;
    rows.strides[2] = item;
    return rows;
}

static void reverse_rows(ingot_rows *rows, int64_t length) {
    rows->data += (length - 1) * rows->strides[1];
    rows->strides[1] = -rows->strides[1];
}

/* Fills the first element of each row. */
static void set_first(const ingot_rows *rows, int64_t before, int64_t behind, const char *value, int64_t item) {
    for (int64_t i = 0; i < before; i++)
        for (int64_t k = 0; k < behind; k++)
            memcpy(rows->data + i * rows->strides[0] + k * rows->strides[2], value, (size_t)item);
}

/* numbers: the dtype, the kind, the three lengths, whether rows begin at their ends, whether an element is part of its own
 * result; operands: elements, results, the result of no elements */
int ingot_call_scan(const RoutineCall *call, const RoutineMemory *memory) {
    const int64_t *n = call->numbers;
    int64_t item = dtype_table[n[0]]->itemsize;
    ingot_scan scan = {
        .kind = (ingot_scan_kind)n[1],
        .dtype = (int)n[0],
        .before = n[2],
        .length = n[3],
        .behind = n[4],
        .elements = contiguous_rows(ingot_operand(call, memory, 0), n[3], n[4], item),
        .results = contiguous_rows(ingot_operand(call, memory, 1), n[3], n[4], item),
    };
    if (n[5]) {
        reverse_rows(&scan.elements, n[3]);
        reverse_rows(&scan.results, n[3]);
    }
    if (!n[6]) {
        set_first(&scan.results, n[2], n[4], ingot_operand(call, memory, 2), item);
        scan.results.data += scan.results.strides[1];
        scan.length--;
    }
    return scan.length == 0 || ingot_scan_rows(&scan) ? ROUTINE_DONE : ROUTINE_INTERRUPTED;
}

/* ---- searches ---- */

typedef struct {
    const char *sequences, *values;
    uint32_t *results;
    int dtype;
    int64_t length, count; /* of each sequence, of its values */
    bool is_right;
} Search;

enum { SEARCHED = 16 }; /* values that are looked up in step, so that their loads overlap */

/* GCC makes conditional moves of selections that depend on integers, and branches of those that depend on floats. */
#define SELECTED_STEP(condition, half) ((condition) ? (half) : 0)
#define MASKED_STEP(condition, half) (-(int64_t)(condition) & (half))

/* Where up to SEARCHED values belong. Each step halves all ranges, which are equally long, without a branch that depends
 * on elements. NaN is behind all numbers, and thus to the left of the first NaN or behind everything. */
#define DEFINE_SEARCH(NAME, TYPE, STEP)                                                                              \
    static inline int64_t numbers_##NAME(const TYPE *from, int64_t n) {                                              \
        int64_t first = 0;                                                                                           \
        for (int64_t rest = n, half; rest > 0; rest -= half) {                                                       \
            half = (rest + 1) / 2;                                                                                   \
            first += from[first + half - 1] == from[first + half - 1] ? half : 0;                                    \
        }                                                                                                            \
        return first;                                                                                                \
    }                                                                                                                \
    static inline __attribute__((always_inline)) void look_up_##NAME(const TYPE *from, int64_t n, const TYPE *given, \
                                                                     int64_t count, bool is_right, uint32_t *to) {   \
        TYPE values[SEARCHED];                                                                                       \
        int64_t first[SEARCHED] = {0};                                                                               \
        for (int64_t k = 0; k < SEARCHED; k++)                                                                       \
            values[k] = given[k < count ? k : 0];                                                                    \
        for (int64_t rest = n, half; rest > 0; rest -= half) {                                                       \
            half = (rest + 1) / 2;                                                                                   \
            for (int64_t k = 0; k < SEARCHED; k++) {                                                                 \
                TYPE element = from[first[k] + half - 1];                                                            \
                first[k] += STEP(is_right ? element <= values[k] : element < values[k], half);                       \
            }                                                                                                        \
        }                                                                                                            \
        for (int64_t k = 0; k < count; k++)                                                                          \
            to[k] = (uint32_t)(values[k] == values[k] ? first[k] : is_right ? n : numbers_##NAME(from, n));          \
    }                                                                                                                \
    FOR_EACH_MACHINE                                                                                                 \
    static void search_##NAME(const Search *s, int64_t begin, int64_t end) {                                         \
        int64_t n = s->length, next;                                                                                 \
        for (int64_t i = begin; i < end; i = next) {                                                                 \
            int64_t sequence = i / s->count, last = (sequence + 1) * s->count;                                       \
            const TYPE *from = (const TYPE *)(const void *)s->sequences + sequence * n;                              \
            const TYPE *values = (const TYPE *)(const void *)s->values + i;                                          \
            next = i + SEARCHED < end ? i + SEARCHED : end;                                                          \
            next = next < last ? next : last;                                                                        \
            if (s->is_right)                                                                                         \
                look_up_##NAME(from, n, values, next - i, true, s->results + i);                                     \
            else                                                                                                     \
                look_up_##NAME(from, n, values, next - i, false, s->results + i);                                    \
        }                                                                                                            \
    }

DEFINE_SEARCH(float, float, MASKED_STEP)
DEFINE_SEARCH(double, double, MASKED_STEP)
DEFINE_SEARCH(int32, int32_t, SELECTED_STEP)
DEFINE_SEARCH(uint32, uint32_t, SELECTED_STEP)
DEFINE_SEARCH(int64, int64_t, SELECTED_STEP)

static void search_some(void *context, int64_t begin, int64_t end, int Py_UNUSED(thread)) {
    const Search *s = context;
    switch (s->dtype) {
    case FLOAT32:
        search_float(s, begin, end);
        break;
    case FLOAT64:
        search_double(s, begin, end);
        break;
    case INT32:
        search_int32(s, begin, end);
        break;
    case UINT32:
        search_uint32(s, begin, end);
        break;
    default: /* INT64 */
        search_int64(s, begin, end);
    }
}

/* numbers: the dtype, the sequences, elements of each, values for each, whether values belong behind equal elements */
int ingot_call_search(const RoutineCall *call, const RoutineMemory *memory) {
    const int64_t *n = call->numbers;
    Search search = {
        .sequences = ingot_operand(call, memory, 0),
        .values = ingot_operand(call, memory, 1),
        .results = (uint32_t *)(void *)ingot_operand(call, memory, 2),
        .dtype = (int)n[0],
        .length = n[2],
        .count = n[3],
        .is_right = n[4] != 0,
    };
    int64_t all = n[1] * n[3], grain = SEARCH_GRAIN;
    return ingot_interruptible_for(search_some, &search, 0, all, grain, grain * FIRST_BLOCK_GRAINS) == all
               ? ROUTINE_DONE
               : ROUTINE_INTERRUPTED;
}
