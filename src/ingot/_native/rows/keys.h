/* Elements of any dtype as integers in the same order, so that whatever orders elements is written once for 32 bits and once
 * for 64. NaN is the largest; -0 comes before +0. */
#ifndef INGOT_KEYS_H
#define INGOT_KEYS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the dtype (a number of native.h) has keys: all but complex ones have. */
bool ingot_has_keys(int dtype);

/* Bytes of a key of that dtype: 4 or 8. */
int64_t ingot_key_size(int dtype);

/* Keys of `count` elements that lie `stride` bytes apart. */
void ingot_load_keys(int dtype, const char *from, int64_t stride, int64_t count, void *keys);

#endif
