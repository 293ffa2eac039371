/* Distances of coded vectors from a query, computed from the codes: the inner loops of a search in inverted lists,
 * with a version per instruction set. Does not use Python. */
#ifndef INGOT_CODED_KEYS_H
#define INGOT_CODED_KEYS_H

#include <stdint.h>

#include "search/distances.h"

typedef enum {
    CODES_FLOAT32, /* the vectors themselves */
    CODES_8_BITS,  /* component i is origin[i] + step[i] * code[i] */
    CODES_4_BITS,  /* the same; the lower half of a byte holds the first of two components */
    CODES_FLOAT16, /* the same; all codes are finite */
    CODES_PARTS,   /* product quantisation: byte i selects the entry of codebook i that replaces part i of a vector */
    CODES_KINDS,
} ingot_codes_kind;

/* The format of the codes. The metric is L2 or inner product. */
typedef struct {
    ingot_metric metric;
    ingot_codes_kind kind;
    int64_t d, code_bytes;
    const float *origins, *steps;
    const float *codebooks; /* (d, entries): for each component, its value in every entry of its part's codebook */
    int64_t entries;        /* a power of two, at most 256; higher bits of a code are ignored */
} ingot_codes;

/* Size in bytes of the buffer that ingot_prepare_codes fills, which must be aligned to a cache line. */
int64_t ingot_prepared_bytes(const ingot_codes *codes);

/* Computes what the keys of a query share, for codes of residuals to `centroid` (NULL: of the vectors themselves). */
void ingot_prepare_codes(const ingot_codes *codes, const float *query, const float *centroid, float *prepared);

/* Writes the keys of rows of codes; smaller is nearer, as in distances.h. Nothing at or after `end` is read. */
void ingot_coded_keys(const ingot_codes *codes, const float *query, float *prepared, const char *rows, int64_t row_count,
                      const char *end, float *keys);

#endif
