/* Keys of coded vectors, 16 components at a time.
 *
 * With scalar codes, the difference between a query x and a decoded vector is (x - centroid - origin) - step * code,
 * whose parenthesised term is computed once per list. An inner product is x (centroid + origin) plus the sum of (x
 * step) * code. With product quantisation, each subcode indexes a lookup table that is also computed once per list. */
#include "search/coded_keys.h"

#include <string.h>

#include "search/vectors.h"

typedef uint8_t Bytes __attribute__((vector_size(16)));
typedef uint16_t Shorts __attribute__((vector_size(32)));

/* Layout of `prepared`: one number that is added to all keys, then the tables. */
enum { TABLES = LANES };

static int64_t rounded_up(int64_t count, int64_t multiple) {
    return (count + multiple - 1) / multiple * multiple;
}

/* Padded to a multiple of 16 components, or 32 with 4-bit codes. */
static int64_t padded_length(const ingot_codes *codes) {
    return rounded_up(codes->d, codes->kind == CODES_4_BITS ? 2 * LANES : LANES);
}

int64_t ingot_prepared_bytes(const ingot_codes *codes) {
    int64_t numbers = 0;
    if (codes->kind == CODES_PARTS)
        numbers = codes->code_bytes * codes->entries;
    else if (codes->kind != CODES_FLOAT32)
        numbers = 3 * padded_length(codes); /* the third is a buffer for one row of codes */
    return (TABLES + numbers) * (int64_t)sizeof(float);
}

/* In two steps, each of which is one instruction. */
INLINE void unpack(Bits *numbers, const Bytes *bytes) {
    Shorts wider = __builtin_convertvector(*bytes, Shorts);
    *numbers = __builtin_convertvector(wider, Bits);
}

/* Index of component i in the tables, which are in the order in which the codes are unpacked. */
static int64_t table_index(const ingot_codes *codes, int64_t i) {
    if (codes->kind != CODES_4_BITS)
        return i;
    int64_t inside = i % (2 * LANES);
    return i - inside + inside / 2 + inside % 2 * LANES;
}

static void prepare_components(const ingot_codes *codes, const float *query, const float *centroid, float *prepared) {
    int64_t length = padded_length(codes);
    float *first = prepared + TABLES, *second = first + length;
    memset(first, 0, 3 * (size_t)length * sizeof(float)); /* zeros for the padding */
    for (int64_t i = 0; i < codes->d; i++) {
        int64_t at = table_index(codes, i);
        float origin = codes->origins[i] + (centroid == NULL ? 0 : centroid[i]);
        if (codes->metric == METRIC_L2) {
            first[at] = query[i] - origin;
            second[at] = codes->steps[i];
        } else {
            first[at] = query[i] * codes->steps[i];
            prepared[0] -= query[i] * origin;
        }
    }
}

FOR_EACH_MACHINE
static void prepare_parts(const ingot_codes *codes, const float *query, const float *centroid, float *prepared) {
    float *tables = prepared + TABLES;
    int64_t entries = codes->entries, length = codes->d / codes->code_bytes;
    memset(tables, 0, (size_t)(codes->code_bytes * entries) * sizeof(float));
    for (int64_t i = 0; i < codes->d; i++) {
        const float *column = codes->codebooks + i * entries;
        float *table = tables + i / length * entries, x = query[i];
        if (codes->metric == METRIC_L2) {
            x -= centroid == NULL ? 0 : centroid[i];
            for (int64_t j = 0; j < entries; j++)
                table[j] += (x - column[j]) * (x - column[j]);
        } else {
            prepared[0] -= centroid == NULL ? 0 : x * centroid[i];
            for (int64_t j = 0; j < entries; j++)
                table[j] -= x * column[j];
        }
    }
}

void ingot_prepare_codes(const ingot_codes *codes, const float *query, const float *centroid, float *prepared) {
    prepared[0] = 0;
    if (codes->kind == CODES_PARTS)
        prepare_parts(codes, query, centroid, prepared);
    else if (codes->kind != CODES_FLOAT32)
        prepare_components(codes, query, centroid, prepared);
}

/* Converts finite half-precision numbers: the exponent bias differs by 112. */
INLINE void widen(Lanes *to, const Shorts *from) {
    Bits bits = __builtin_convertvector(*from, Bits), size = (bits & 0x7fff) << 13, sign = (bits & 0x8000) << 16;
    *to = (Lanes)((Bits)((Lanes)size * 0x1p112f) | sign);
}

INLINE void add_codes(ingot_metric metric, Lanes *sum, const Lanes *code, const float *first, const float *second) {
    Lanes x, step;
    load(&x, first);
    if (metric != METRIC_L2) {
        *sum += x * *code;
        return;
    }
    load(&step, second);
    Lanes difference = x - step * *code;
    *sum += difference * difference;
}

INLINE void keys_of_components(ingot_metric metric, ingot_codes_kind kind, const ingot_codes *codes, float *prepared,
                               const char *rows, int64_t row_count, const char *end, float *keys) {
    int64_t length = padded_length(codes);
    const float *first = prepared + TABLES, *second = first + length;
    int64_t read = kind == CODES_FLOAT16 ? 2 * length : kind == CODES_4_BITS ? length / 2 : length;
    for (int64_t row = 0; row < row_count; row++) {
        const char *from = rows + row * codes->code_bytes;
        if (end - from < read) /* loads run past the row; the excess is multiplied by 0, but must be readable */
            from = memcpy(prepared + TABLES + 2 * length, from, (size_t)codes->code_bytes);
        Lanes sum = {0}, code;
        for (int64_t i = 0; i < length; i += LANES) {
            if (kind == CODES_FLOAT16) {
                Shorts halves;
                memcpy(&halves, from + 2 * i, sizeof halves);
                widen(&code, &halves);
            } else {
                Bytes bytes;
                Bits numbers;
                memcpy(&bytes, from + (kind == CODES_4_BITS ? i / 2 : i), sizeof bytes);
                unpack(&numbers, &bytes);
                if (kind == CODES_4_BITS) {
                    code = __builtin_convertvector(numbers & 15, Lanes);
                    add_codes(metric, &sum, &code, first + i, second + i);
                    i += LANES;
                    numbers = numbers >> 4;
                }
                code = __builtin_convertvector(numbers, Lanes);
            }
            add_codes(metric, &sum, &code, first + i, second + i);
        }
        keys[row] = metric == METRIC_L2 ? total(&sum) : prepared[0] - total(&sum);
    }
}

static void keys_of_parts(const ingot_codes *codes, const float *prepared, const char *rows, int64_t row_count, float *keys) {
    const float *tables = prepared + TABLES;
    int64_t parts = codes->code_bytes, entries = codes->entries, mask = entries - 1;
    enum { ROWS = 4 }; /* per iteration, whose sums are independent dependency chains */
    int64_t row = 0;
    for (; row + ROWS <= row_count; row += ROWS) {
        const uint8_t *code = (const uint8_t *)rows + row * parts;
        float sums[ROWS] = {prepared[0], prepared[0], prepared[0], prepared[0]};
        const float *table = tables;
        for (int64_t part = 0; part < parts; part++, table += entries) {
            for (int r = 0; r < ROWS; r++)
                sums[r] += table[code[r * parts + part] & mask];
        }
        memcpy(keys + row, sums, sizeof sums);
    }
    for (; row < row_count; row++) {
        const uint8_t *code = (const uint8_t *)rows + row * parts;
        float sum = prepared[0];
        for (int64_t part = 0; part < parts; part++)
            sum += tables[part * entries + (code[part] & mask)];
        keys[row] = sum;
    }
}

FOR_EACH_MACHINE
static void keys_of_scalars(const ingot_codes *codes, float *prepared, const char *rows, int64_t row_count, const char *end,
                            float *keys) {
#define CASE(kind_here)                                                                        \
    if (codes->kind == kind_here && codes->metric == METRIC_L2)                                \
        keys_of_components(METRIC_L2, kind_here, codes, prepared, rows, row_count, end, keys); \
    else if (codes->kind == kind_here)                                                         \
        keys_of_components(METRIC_INNER_PRODUCT, kind_here, codes, prepared, rows, row_count, end, keys);
    CASE(CODES_8_BITS)
    CASE(CODES_4_BITS)
    CASE(CODES_FLOAT16)
#undef CASE
}

void ingot_coded_keys(const ingot_codes *codes, const float *query, float *prepared, const char *rows, int64_t row_count,
                      const char *end, float *keys) {
    if (codes->kind == CODES_FLOAT32)
        ingot_keys(codes->metric, query, 1, (const float *)rows, row_count, codes->d, keys, row_count);
    else if (codes->kind == CODES_PARTS)
        keys_of_parts(codes, prepared, rows, row_count, keys);
    else
        keys_of_scalars(codes, prepared, rows, row_count, end, keys);
}
