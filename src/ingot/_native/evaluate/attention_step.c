/* Attention of few queries over many keys, which are read in place from a cache (flash decoding).
 *
 * Keys are divided into splits of a fixed length. Each split of each key head is one iteration of a parallel loop: it
 * computes the scores of all queries that share the keys, in blocks that stay in L1, with an online softmax that keeps the
 * running maximum, the sum of exponentials and the weighted sum of values. A second loop combines the splits. Their number
 * depends on lengths alone, so results do not depend on the number of threads. */
#include "evaluate/attention_step.h"

#include "threads/machine.h"
#include "threads/pool.h"
#include "tuning.h"

#include <float.h>
#include <math.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") /* x * y + z is one instruction where there is one */
#endif

#define SHUFFLE(a, b, lanes) SHUFFLE_LANES(a, b, lanes)
#define SHUFFLE_LANES(...) __builtin_shufflevector(__VA_ARGS__)

#define INLINE static inline __attribute__((always_inline))

#define KEY_BLOCK 32 /* rows of keys and values that are converted, and whose scores are kept, at a time */
#define DOTS 4       /* rows that are multiplied at once, whose sums make a vector of 128 bits */
#define SUM_VECTORS 4
#define QUERY_BLOCK 8 /* queries that are at the same stage, so that processors overlap their chains of dependent steps */

bool attention_step_is_long(const AttentionStep *step) {
    double products = (double)step->examples * (double)step->heads * (double)step->queries * (double)step->keys;
    return products * (double)(step->width + step->value_width) >= MIN_PARALLEL_ATTENTION;
}

INLINE float half_to_float(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7fff) << 13, sign = (uint32_t)(half & 0x8000) << 16;
    float scaled;
    memcpy(&scaled, &magnitude, sizeof scaled);
    scaled *= 0x1p112f; /* moves the exponent's bias; subnormals become normal by it */
    uint32_t bits;
    memcpy(&bits, &scaled, sizeof bits);
    bits = magnitude >= 0x0f800000u ? magnitude | 0x7f800000u : bits; /* infinities and NaN */
    bits |= sign;
    memcpy(&scaled, &bits, sizeof scaled);
    return scaled;
}

/* A row as float32: in place, or converted to `room`. */
INLINE const float *row_of(const AttentionOperand *operand, int element, int64_t example, int64_t head, int64_t row,
                           int64_t width, float *room) {
    int64_t index = example * operand->strides[0] + head * operand->strides[1] + row * operand->strides[2];
    if (element == ELEMENT_FLOAT32)
        return (const float *)(const void *)operand->data + index;
    const uint16_t *from = (const uint16_t *)(const void *)operand->data + index;
    if (element == ELEMENT_BFLOAT16) {
        for (int64_t i = 0; i < width; i++) {
            uint32_t bits = (uint32_t)from[i] << 16;
            memcpy(&room[i], &bits, sizeof bits);
        }
    } else {
        for (int64_t i = 0; i < width; i++)
            room[i] = half_to_float(from[i]);
    }
    return room;
}

/* 128-bit vectors, which every target has, for horizontal sums. */
typedef float Four __attribute__((vector_size(16)));

/* The sum of `count` numbers, a multiple of four. */
INLINE float total_of(const float *parts, const int count) {
    Four sum, more;
    memcpy(&sum, parts, sizeof sum);
#pragma GCC unroll 8
    for (int i = 4; i < count; i += 4) {
        memcpy(&more, parts + i, sizeof more);
        sum += more;
    }
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

/* exp of numbers that are at most 0, to about one ulp; 0 below -87. Without branches, so that the loop is vectorised. */
INLINE void exponentials(float *values, const int count) {
    const float rounder = 0x1.8p23f; /* a number of this size has no fraction, and the integer in its lowest bits */
    for (int i = 0; i < count; i++) {
        float x = values[i], clamped = x < -87.0f ? -87.0f : x;
        float shifted = clamped * 1.44269504f + rounder, whole = shifted - rounder;
        float rest = (clamped - whole * 0.693359375f) + whole * 2.12194440e-4f;
        float power = 1.0f / 5040.0f;
        power = power * rest + 1.0f / 720.0f;
        power = power * rest + 1.0f / 120.0f;
        power = power * rest + 1.0f / 24.0f;
        power = power * rest + 1.0f / 6.0f;
        power = power * rest + 0.5f;
        power = power * rest + 1.0f;
        power = power * rest + 1.0f;
        uint32_t bits;
        memcpy(&bits, &shifted, sizeof bits);
        bits = (bits - 0x4b400000u + 127u) << 23; /* arbitrary for NaN, where the product is NaN anyway */
        float scale;
        memcpy(&scale, &bits, sizeof scale);
        values[i] = x < -87.0f ? 0.0f : power * scale;
    }
}

/* The index of the first key in a row of the mask. */
INLINE int64_t mask_index(const AttentionStep *step, int64_t example, int64_t head, int64_t query) {
    return example * step->mask_strides[0] + head * step->mask_strides[1] + query * step->mask_strides[2];
}

/* Applies the mask to the scores of one query. */
INLINE void apply_mask(const AttentionStep *step, float *scores, int64_t example, int64_t head, int64_t query, int64_t first,
                       int count) {
    if (step->causal) {
        for (int i = 0; i < count; i++)
            scores[i] = first + i > query + step->keys - step->queries ? -FLT_MAX : scores[i];
    }
    if (step->mask == NULL)
        return;
    int64_t index = mask_index(step, example, head, query) + first * step->mask_strides[3];
    for (int i = 0; i < count; i++, index += step->mask_strides[3]) {
        if (step->mask_is_bool)
            scores[i] = step->mask[index] ? scores[i] : -FLT_MAX;
        else
            scores[i] += ((const float *)(const void *)step->mask)[index];
    }
}

/* The maximum of a block of scores, ignoring NaN, which shows up in the sum. */
INLINE float largest_of(const float *scores) {
    float tops[4]; /* of every fourth one: a vector */
    memcpy(tops, scores, sizeof tops);
    for (int i = 4; i < KEY_BLOCK; i += 4) {
        for (int lane = 0; lane < 4; lane++)
            tops[lane] = tops[lane] > scores[i + lane] ? tops[lane] : scores[i + lane];
    }
    float even = tops[0] > tops[2] ? tops[0] : tops[2], odd = tops[1] > tops[3] ? tops[1] : tops[3];
    return even > odd ? even : odd;
}

static int64_t state_index(const AttentionStep *step, int64_t split, int64_t example, int64_t head, int64_t query) {
    int64_t row = ((split * step->examples + example) * step->heads + head) * step->queries + query;
    return row * (step->value_width + 2);
}

#if defined(__x86_64__) && defined(__GNUC__)
#define SEVERAL_MACHINES 1

#define MACHINE avx512
#define TARGET __attribute__((target("avx512f")))
#define LANES 16
#define PAIRS_LOW 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29
#define PAIRS_HIGH 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31
#define HALVES_LOW 0, 1, 16, 17, 4, 5, 20, 21, 8, 9, 24, 25, 12, 13, 28, 29
#define HALVES_HIGH 2, 3, 18, 19, 6, 7, 22, 23, 10, 11, 26, 27, 14, 15, 30, 31
#include "evaluate/attention_loop.h"

#define MACHINE avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define PAIRS_LOW 0, 8, 1, 9, 4, 12, 5, 13
#define PAIRS_HIGH 2, 10, 3, 11, 6, 14, 7, 15
#define HALVES_LOW 0, 1, 8, 9, 4, 5, 12, 13
#define HALVES_HIGH 2, 3, 10, 11, 6, 7, 14, 15
#include "evaluate/attention_loop.h"
#endif

#define MACHINE any
#define TARGET
#define LANES 4
#define PAIRS_LOW 0, 4, 1, 5
#define PAIRS_HIGH 2, 6, 3, 7
#define HALVES_LOW 0, 1, 4, 5
#define HALVES_HIGH 2, 3, 6, 7
#include "evaluate/attention_loop.h"

static void attend_split(const AttentionStep *step, int64_t example, int64_t key_head, int64_t split, float *room) {
#ifdef SEVERAL_MACHINES
    int vectors = ingot_machine_vectors();
    if (vectors == INGOT_AVX512) {
        attend_split_avx512(step, example, key_head, split, room);
        return;
    }
    if (vectors == INGOT_AVX2) {
        attend_split_avx2(step, example, key_head, split, room);
        return;
    }
#endif
    attend_split_any(step, example, key_head, split, room);
}

/* The number of floats that a part needs to convert rows of half precision. */
static int64_t room_of_part(const AttentionStep *step) {
    return step->element == ELEMENT_FLOAT32 ? 0 : step->width + KEY_BLOCK * (step->width + step->value_width);
}

static int64_t count_items(const AttentionStep *step) {
    return step->examples * step->key_heads * step->splits;
}

/* Some parts of all items. Scratch memory belongs to parts, not threads, whose number may have grown since. */
static void attend_parts(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const AttentionStep *step = context;
    int64_t items = count_items(step);
    for (int64_t part = begin; part < end; part++) {
        float *room = step->room + part * room_of_part(step);
        for (int64_t item = part * items / step->parts; item < (part + 1) * items / step->parts; item++) {
            int64_t split = item % step->splits, head = item / step->splits;
            attend_split(step, head / step->key_heads, head % step->key_heads, split, room);
        }
    }
}

/* The results of one row, of all splits. */
static void combine(const AttentionStep *step, int64_t example, int64_t head, int64_t query) {
    int64_t width = step->value_width;
    float largest = -INFINITY;
    for (int64_t split = 0; split < step->splits; split++) {
        float top = step->partial[state_index(step, split, example, head, query)];
        largest = top > largest || isnan(top) ? top : largest;
    }
    float sink = step->sinks == NULL ? -INFINITY : step->sinks[example * step->sink_strides[0] + head * step->sink_strides[1]];
    largest = sink > largest ? sink : largest;
    float origin = largest == -INFINITY ? 0.0f : largest;
    float *result = step->result + ((example * step->heads + head) * step->queries + query) * width;
    memset(result, 0, sizeof *result * (size_t)width);
    float sum = step->sinks == NULL ? 0.0f : expf(sink - origin);
    for (int64_t split = 0; split < step->splits; split++) {
        const float *state = step->partial + state_index(step, split, example, head, query);
        float weight = step->splits == 1 && step->sinks == NULL ? 1.0f : expf(state[0] - origin);
        sum += state[1] * weight;
        for (int64_t e = 0; e < width; e++)
            result[e] += state[2 + e] * weight;
    }
    for (int64_t e = 0; e < width; e++)
        result[e] /= sum;
}

static void combine_rows(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const AttentionStep *step = context;
    for (int64_t row = begin; row < end; row++)
        combine(step, row / step->queries / step->heads, row / step->queries % step->heads, row % step->queries);
}

int64_t attention_step_plan(AttentionStep *step) {
    step->splits = (step->keys + ATTENTION_SPLIT - 1) / ATTENTION_SPLIT;
    int64_t items = count_items(step), most = (int64_t)ingot_num_threads() * CHUNKS_PER_THREAD;
    step->parts = step->element == ELEMENT_FLOAT32 || items < most ? items : most;
    return state_index(step, step->splits, 0, 0, 0) + step->parts * room_of_part(step);
}

void attention_step_run(AttentionStep *step) {
    step->room = step->partial + state_index(step, step->splits, 0, 0, 0);
    ingot_parallel_for(attend_parts, step, step->parts, attention_step_is_long(step) ? 1 : step->parts);
    int64_t rows = step->examples * step->heads * step->queries;
    ingot_parallel_for(combine_rows, step, rows, attention_step_is_long(step) ? 4 : rows);
}
