/* Calls of routines on rows: scans, and searches in sorted rows. */
#include "routines/routine.h"

#include <string.h>

#include "rows/scan.h"
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

/* Where a value belongs: NaN is behind all numbers. Each step halves the range without a branch that depends on elements. */
#define SEARCH(TYPE)                                                                                      \
    do {                                                                                                  \
        const TYPE *values = (const TYPE *)(const void *)s->values;                                       \
        for (int64_t i = begin; i < end; i++) {                                                           \
            const TYPE *from = (const TYPE *)(const void *)s->sequences + i / s->count * n;               \
            TYPE value = values[i];                                                                       \
            int64_t first = 0, rest = n;                                                                  \
            while (rest > 0) {                                                                            \
                int64_t half = rest / 2;                                                                  \
                TYPE middle = from[first + half];                                                         \
                bool is_behind = s->is_right ? !(value < middle) && !(middle != middle && value == value) \
                                             : middle < value || (value != value && middle == middle);    \
                first = is_behind ? first + half + 1 : first;                                             \
                rest = is_behind ? rest - half - 1 : half;                                                \
            }                                                                                             \
            s->results[i] = (uint32_t)first;                                                              \
        }                                                                                                 \
    } while (0)

static void search_some(void *context, int64_t begin, int64_t end, int Py_UNUSED(thread)) {
    const Search *s = context;
    int64_t n = s->length;
    switch (s->dtype) {
    case FLOAT32:
        SEARCH(float);
        break;
    case FLOAT64:
        SEARCH(double);
        break;
    case INT32:
        SEARCH(int32_t);
        break;
    case UINT32:
        SEARCH(uint32_t);
        break;
    default: /* INT64 */
        SEARCH(int64_t);
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
