/* Order-preserving integer keys of elements. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "order/keys.h"

#include <string.h>

#include "search/vectors.h"

bool ingot_has_keys(int dtype) {
    return dtype >= 0 && dtype < COMPLEX64;
}

int64_t ingot_key_size(int dtype) {
    return dtype == UINT64 || dtype == INT64 || dtype == FLOAT64 ? 8 : 4;
}

/* Floats as ordered integers: the magnitude of negative numbers is inverted, and NaN (above infinity) maps to the
 * maximum. */
INLINE int32_t of_half(int16_t bits, int32_t infinity) {
    int32_t magnitude = bits & 0x7FFF;
    return magnitude > infinity ? INT32_MAX : bits < 0 ? -1 - magnitude : magnitude;
}

INLINE int32_t of_single(int32_t bits) {
    int32_t magnitude = bits & INT32_MAX;
    return magnitude > 0x7F800000 ? INT32_MAX : bits < 0 ? ~magnitude : magnitude;
}

INLINE int64_t of_double(int64_t bits) {
    int64_t magnitude = bits & INT64_MAX;
    return magnitude > 0x7FF0000000000000 ? INT64_MAX : bits < 0 ? ~magnitude : magnitude;
}

/* One loop over contiguous elements, which the compiler vectorises, and one for any other stride. */
#define LOAD(TYPE, KEY, key)                                            \
    do {                                                                \
        KEY *to = keys;                                                 \
        if (stride == (int64_t)sizeof(TYPE)) {                          \
            for (int64_t i = 0; i < count; i++) {                       \
                TYPE x;                                                 \
                memcpy(&x, from + i * (int64_t)sizeof(TYPE), sizeof x); \
                to[i] = key;                                            \
            }                                                           \
            return;                                                     \
        }                                                               \
        for (int64_t i = 0; i < count; i++) {                           \
            TYPE x;                                                     \
            memcpy(&x, from + i * stride, sizeof x);                    \
            to[i] = key;                                                \
        }                                                               \
        return;                                                         \
    } while (0)

FOR_EACH_MACHINE
void ingot_load_keys(int dtype, const char *from, int64_t stride, int64_t count, void *keys) {
    switch (dtype) {
    case BOOL:
    case UINT8:
        LOAD(uint8_t, int32_t, x);
    case UINT16:
        LOAD(uint16_t, int32_t, x);
    case UINT32:
        LOAD(int32_t, int32_t, x ^ INT32_MIN);
    case UINT64:
        LOAD(int64_t, int64_t, x ^ INT64_MIN);
    case INT8:
        LOAD(uint8_t, int32_t, x ^ 0x80);
    case INT16:
        LOAD(int16_t, int32_t, x);
    case INT32:
        LOAD(int32_t, int32_t, x);
    case INT64:
        LOAD(int64_t, int64_t, x);
    case FLOAT16:
        LOAD(int16_t, int32_t, of_half(x, 0x7C00));
    case BFLOAT16:
        LOAD(int16_t, int32_t, of_half(x, 0x7F80));
    case FLOAT32:
        LOAD(int32_t, int32_t, of_single(x));
    default:
        LOAD(int64_t, int64_t, of_double(x));
    }
}
