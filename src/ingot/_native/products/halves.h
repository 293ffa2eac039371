/* Copies of operands for small products, converted from half precision. */
#ifndef INGOT_HALVES_H
#define INGOT_HALVES_H

#include <stdint.h>

/* `runs` of `length` elements, which begin `stride` elements apart, to or from memory without gaps. `element` is 'h' for
 * float16 and 'b' for bfloat16. Rounds to nearest, ties to even. */
void ingot_widen(int element, const uint16_t *from, int64_t runs, int64_t length, int64_t stride, int64_t step, float *to);
void ingot_narrow(int element, const float *from, int64_t runs, int64_t length, int64_t stride, uint16_t *to);
void ingot_copy_words(const uint32_t *from, int64_t runs, int64_t length, int64_t stride, int64_t step, uint32_t *to);
void ingot_copy_pairs(const uint64_t *from, int64_t runs, int64_t length, int64_t stride, int64_t step, uint64_t *to);

#endif
