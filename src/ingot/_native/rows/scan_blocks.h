/* Square blocks of elements, transposed between memory and vectors: element i of each segment is a lane of vector i, so
 * that segments are scanned in lanes, each in its own order. With AVX-512, blocks have SEGMENTS x SEGMENTS elements, of
 * which some may be left out. With AVX2, they have as many lanes as vectors of 32 bytes have accumulators, and are read
 * and written as a whole, because masked stores are slow. */
#ifndef INGOT_SCAN_BLOCKS_H
#define INGOT_SCAN_BLOCKS_H

#include "rows/scan_kernels.h"
#include "search/vectors.h"

#ifdef AVX512
#include <immintrin.h>

/* The transpose of 8 x 8 elements of 4 bytes. */
AVX2 INLINE void transpose_4(__m256 *x) {
    __m256 pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm256_unpacklo_ps(x[i], x[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_ps(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            fours[i + 2 * j] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0x44);
            fours[i + 2 * j + 1] = _mm256_shuffle_ps(pairs[i + j], pairs[i + j + 2], 0xEE);
        }
    for (int i = 0; i < 4; i++) {
        x[i] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x20);
        x[i + 4] = _mm256_permute2f128_ps(fours[i], fours[i + 4], 0x31);
    }
}

/* The transpose of 8 x 8 elements of 8 bytes. */
AVX512 INLINE void transpose_8(__m512d *x) {
    __m512d pairs[8], fours[8];
    for (int i = 0; i < 8; i += 2) {
        pairs[i] = _mm512_unpacklo_pd(x[i], x[i + 1]);
        pairs[i + 1] = _mm512_unpackhi_pd(x[i], x[i + 1]);
    }
    for (int i = 0; i < 8; i += 4)
        for (int j = 0; j < 2; j++) {
            fours[i + j] = _mm512_shuffle_f64x2(pairs[i + j], pairs[i + j + 2], 0x88);
            fours[i + j + 2] = _mm512_shuffle_f64x2(pairs[i + j], pairs[i + j + 2], 0xDD);
        }
    for (int i = 0; i < 4; i++) {
        x[i] = _mm512_shuffle_f64x2(fours[i], fours[i + 4], 0x88);
        x[i + 4] = _mm512_shuffle_f64x2(fours[i], fours[i + 4], 0xDD);
    }
}

/* Reads elements `at` ... `at + width` of each segment; lanes of the others are 0. */
AVX512 INLINE void read_part_4(const char *const *from, int64_t at, int width, void *block) {
    __m256 x[SEGMENTS];
    for (int s = 0; s < SEGMENTS; s++)
        x[s] = _mm256_maskz_loadu_ps((__mmask8)((1 << width) - 1), (const float *)(const void *)from[s] + at);
    transpose_4(x);
    memcpy(block, x, sizeof x);
}

AVX512 INLINE void write_part_4(char *const *to, int64_t at, int width, const void *block) {
    __m256 x[SEGMENTS];
    memcpy(x, block, sizeof x);
    transpose_4(x);
    for (int s = 0; s < SEGMENTS; s++)
        _mm256_mask_storeu_ps((float *)(void *)to[s] + at, (__mmask8)((1 << width) - 1), x[s]);
}

AVX512 INLINE void read_part_8(const char *const *from, int64_t at, int width, void *block) {
    __m512d x[SEGMENTS];
    for (int s = 0; s < SEGMENTS; s++)
        x[s] = _mm512_maskz_loadu_pd((__mmask8)((1 << width) - 1), (const double *)(const void *)from[s] + at);
    transpose_8(x);
    memcpy(block, x, sizeof x);
}

AVX512 INLINE void write_part_8(char *const *to, int64_t at, int width, const void *block) {
    __m512d x[SEGMENTS];
    memcpy(x, block, sizeof x);
    transpose_8(x);
    for (int s = 0; s < SEGMENTS; s++)
        _mm512_mask_storeu_pd((double *)(void *)to[s] + at, (__mmask8)((1 << width) - 1), x[s]);
}

/* Elements of 4 bytes that are accumulated in 8. */
#define read_part_widened read_part_4
#define write_part_widened write_part_4

/* The transpose of 4 x 4 elements of 8 bytes. */
AVX2 INLINE void transpose_whole_8(__m256d *x) {
    __m256d pairs[4];
    for (int i = 0; i < 4; i += 2) {
        pairs[i] = _mm256_unpacklo_pd(x[i], x[i + 1]);
        pairs[i + 1] = _mm256_unpackhi_pd(x[i], x[i + 1]);
    }
    for (int i = 0; i < 2; i++) {
        x[i] = _mm256_permute2f128_pd(pairs[i], pairs[i + 2], 0x20);
        x[i + 2] = _mm256_permute2f128_pd(pairs[i], pairs[i + 2], 0x31);
    }
}

/* Reads elements from `at` on, as many of each segment as there are lanes. */
AVX2 INLINE void read_whole_4(const char *const *from, int64_t at, void *block) {
    __m256 x[8];
    for (int s = 0; s < 8; s++)
        x[s] = _mm256_loadu_ps((const float *)(const void *)from[s] + at);
    transpose_4(x);
    memcpy(block, x, sizeof x);
}

AVX2 INLINE void write_whole_4(char *const *to, int64_t at, const void *block) {
    __m256 x[8];
    memcpy(x, block, sizeof x);
    transpose_4(x);
    for (int s = 0; s < 8; s++)
        _mm256_storeu_ps((float *)(void *)to[s] + at, x[s]);
}

AVX2 INLINE void read_whole_8(const char *const *from, int64_t at, void *block) {
    __m256d x[4];
    for (int s = 0; s < 4; s++)
        x[s] = _mm256_loadu_pd((const double *)(const void *)from[s] + at);
    transpose_whole_8(x);
    memcpy(block, x, sizeof x);
}

AVX2 INLINE void write_whole_8(char *const *to, int64_t at, const void *block) {
    __m256d x[4];
    memcpy(x, block, sizeof x);
    transpose_whole_8(x);
    for (int s = 0; s < 4; s++)
        _mm256_storeu_pd((double *)(void *)to[s] + at, x[s]);
}

AVX2 INLINE void read_whole_widened(const char *const *from, int64_t at, void *block) {
    __m128 x[4];
    for (int s = 0; s < 4; s++)
        x[s] = _mm_loadu_ps((const float *)(const void *)from[s] + at);
    _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
    memcpy(block, x, sizeof x);
}

AVX2 INLINE void write_whole_widened(char *const *to, int64_t at, const void *block) {
    __m128 x[4];
    memcpy(x, block, sizeof x);
    _MM_TRANSPOSE4_PS(x[0], x[1], x[2], x[3]);
    for (int s = 0; s < 4; s++)
        _mm_storeu_ps((float *)(void *)to[s] + at, x[s]);
}

#endif
#endif
