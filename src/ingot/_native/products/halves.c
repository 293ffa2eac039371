/* Copies of operands for small products. Conversions between half precision and float32 are in integer arithmetic, which
 * compilers vectorise on every machine. */
#include "products/halves.h"

#include "search/vectors.h"

#include <string.h>

#ifdef AVX512
#include <immintrin.h>
#endif

INLINE uint32_t bits_of(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}

INLINE float float_of(uint32_t bits) {
    float x;
    memcpy(&x, &bits, sizeof x);
    return x;
}

INLINE float widened_float16(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16;
    uint32_t bits = bits_of(float_of(magnitude) * 0x1p112f); /* moves the exponent's bias; subnormals become normal by it */
    bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : bits; /* infinities and NaN */
    return float_of(bits | sign);
}

INLINE uint16_t narrowed_to_float16(float x) {
    uint32_t bits = bits_of(x), magnitude = bits & 0x7fffffffu, sign = bits >> 16 & 0x8000u;
    /* the exponent's bias differs by 112; a carry out of the fraction is right, up to infinity */
    uint32_t normal = (magnitude + 0xc8000fffu + (magnitude >> 13 & 1)) >> 13;
    /* adding 0.5 rounds to multiples of 2^-24, the unit of subnormals */
    uint32_t subnormal = bits_of(float_of(magnitude) + 0.5f) - 0x3f000000u;
    uint32_t special = magnitude > 0x7f800000u ? 0x7e00u | magnitude >> 13 : 0x7c00u;
    uint32_t finite = magnitude < 0x38800000u ? subnormal : normal;
    return (uint16_t)(sign | (magnitude >= 0x47800000u ? special & 0x7fffu : finite));
}

INLINE uint16_t narrowed_to_bfloat16(float x) {
    uint32_t bits = bits_of(x);
    uint32_t rounded = (bits + 0x7fffu + (bits >> 16 & 1)) >> 16, nan = 0x7fc0u | (bits >> 16 & 0x8000u);
    return (uint16_t)((bits & 0x7fffffffu) > 0x7f800000u ? nan : rounded);
}

#ifdef AVX512
/* With the processor's instructions, 16 elements at a time; those that are left by way of a buffer. */
enum { AT_ONCE = 16 };

AVX512 static void widen_float16(const uint16_t *from, int64_t length, float *to) {
    uint16_t last[AT_ONCE] = {0};
    float results[AT_ONCE];
    int64_t i = 0;
    for (; i + AT_ONCE <= length; i += AT_ONCE)
        _mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)(from + i))));
    if (i == length)
        return;
    memcpy(last, from + i, (size_t)(length - i) * sizeof *from);
    _mm512_storeu_ps(results, _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)last)));
    memcpy(to + i, results, (size_t)(length - i) * sizeof *to);
}

AVX512 static void narrow_to_float16(const float *from, int64_t length, uint16_t *to) {
    float last[AT_ONCE] = {0};
    uint16_t results[AT_ONCE];
    int64_t i = 0;
    for (; i + AT_ONCE <= length; i += AT_ONCE)
        _mm256_storeu_si256((__m256i *)(void *)(to + i), _mm512_cvtps_ph(_mm512_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
    if (i == length)
        return;
    memcpy(last, from + i, (size_t)(length - i) * sizeof *from);
    _mm256_storeu_si256((__m256i *)(void *)results, _mm512_cvtps_ph(_mm512_loadu_ps(last), _MM_FROUND_TO_NEAREST_INT));
    memcpy(to + i, results, (size_t)(length - i) * sizeof *to);
}
#endif

FOR_EACH_MACHINE
static void widen_runs(int element, const uint16_t *from, int64_t runs, int64_t length, int64_t stride, int64_t step,
                       float *to) {
    for (int64_t run = 0; run < runs; run++, from += stride, to += length) {
        if (element == 'b' && step == 1) {
            for (int64_t i = 0; i < length; i++)
                to[i] = float_of((uint32_t)from[i] << 16);
        } else if (element == 'b') {
            for (int64_t i = 0; i < length; i++)
                to[i] = float_of((uint32_t)from[i * step] << 16);
        } else if (step == 1) {
            for (int64_t i = 0; i < length; i++)
                to[i] = widened_float16(from[i]);
        } else {
            for (int64_t i = 0; i < length; i++)
                to[i] = widened_float16(from[i * step]);
        }
    }
}

void ingot_widen(int element, const uint16_t *from, int64_t runs, int64_t length, int64_t stride, int64_t step, float *to) {
#ifdef AVX512
    if (element == 'h' && step == 1 && ingot_has_avx512()) {
        for (int64_t run = 0; run < runs; run++)
            widen_float16(from + run * stride, length, to + run * length);
        return;
    }
#endif
    widen_runs(element, from, runs, length, stride, step, to);
}

FOR_EACH_MACHINE
static void narrow_runs(int element, const float *from, int64_t runs, int64_t length, int64_t stride, uint16_t *to) {
    for (int64_t run = 0; run < runs; run++, from += length, to += stride) {
        if (element == 'b') {
            for (int64_t i = 0; i < length; i++)
                to[i] = narrowed_to_bfloat16(from[i]);
        } else {
            for (int64_t i = 0; i < length; i++)
                to[i] = narrowed_to_float16(from[i]);
        }
    }
}

void ingot_narrow(int element, const float *from, int64_t runs, int64_t length, int64_t stride, uint16_t *to) {
#ifdef AVX512
    if (element == 'h' && ingot_has_avx512()) {
        for (int64_t run = 0; run < runs; run++)
            narrow_to_float16(from + run * length, length, to + run * stride);
        return;
    }
#endif
    narrow_runs(element, from, runs, length, stride, to);
}

#define COPY                                                               \
    for (int64_t run = 0; run < runs; run++, from += stride, to += length) \
        for (int64_t i = 0; i < length; i++)                               \
            to[i] = from[i * step];

void ingot_copy_words(const uint32_t *from, int64_t runs, int64_t length, int64_t stride, int64_t step, uint32_t *to) {
    COPY
}

void ingot_copy_pairs(const uint64_t *from, int64_t runs, int64_t length, int64_t stride, int64_t step, uint64_t *to) {
    COPY
}
