/* Attention of few queries over many keys, as in a decoding step (attention_step.c). */
#ifndef INGOT_ATTENTION_STEP_H
#define INGOT_ATTENTION_STEP_H

#include <stdbool.h>
#include <stdint.h>

enum { ELEMENT_FLOAT32, ELEMENT_FLOAT16, ELEMENT_BFLOAT16 };

/* An operand: strides in elements along examples, heads, rows; the last axis is contiguous. */
typedef struct {
    const char *data;
    int64_t strides[3];
} AttentionOperand;

typedef struct {
    int64_t examples, heads, key_heads, queries, keys, width, value_width;
    int element; /* of queries, keys and values */
    AttentionOperand q, k, v;
    const char *mask; /* NULL, or of bools or float32, with strides in elements along all four axes */
    int64_t mask_strides[4];
    bool mask_is_bool, causal;
    const float *sinks; /* NULL, or with strides along examples and heads */
    int64_t sink_strides[2];
    float scale;
    float *result;  /* (examples, heads, queries, value_width) */
    float *partial; /* scratch memory: for each split and row a maximum, a sum of exponentials and weighted sums */
    float *room;    /* within it: the converted rows of each part */
    int64_t splits, parts;
} AttentionStep;

/* The number of floats in `partial`; sets `splits` and `parts`. */
int64_t attention_step_plan(AttentionStep *step);
/* Whether it takes long enough to release the GIL and to use threads. */
bool attention_step_is_long(const AttentionStep *step);
/* Computes it; needs no GIL. */
void attention_step_run(AttentionStep *step);

#endif
