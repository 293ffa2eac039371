/* Order-preserving integer keys for elements of any dtype, so that sorting and selection are written once for 32
 * bits and once for 64. NaN is the largest; -0 comes before +0. */
#ifndef INGOT_KEYS_H
#define INGOT_KEYS_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the dtype (a number of native.h) has keys: all but the complex ones do. */
bool ingot_has_keys(int dtype);

/* Size in bytes of a key of that dtype: 4 or 8. */
int64_t ingot_key_size(int dtype);

/* Writes the keys of `count` elements with a stride of `stride` bytes. */
void ingot_load_keys(int dtype, const char *from, int64_t stride, int64_t count, void *keys);

#endif
