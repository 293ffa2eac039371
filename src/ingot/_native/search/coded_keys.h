/* How far coded vectors are from a query, read from the codes themselves: the loops of a search in inverted lists, for the
 * vector instructions of the machine it runs on. Without Python. */
#ifndef INGOT_CODED_KEYS_H
#define INGOT_CODED_KEYS_H

#include <stdint.h>

#include "search/distances.h"

typedef enum {
    CODES_FLOAT32, /* the vectors themselves */
    CODES_8_BITS,  /* component i is origin[i] + step[i] * code[i] */
    CODES_4_BITS,  /* the same; the first of two components is in the lower half of a byte */
    CODES_FLOAT16, /* the same; codes are finite */
    CODES_PARTS,   /* a byte for each part of a vector: which entry of a codebook stands for it */
    CODES_KINDS,
} ingot_codes_kind;

/* How codes are to be read. Distances are L2 or inner products. */
typedef struct {
    ingot_metric metric;
    ingot_codes_kind kind;
    int64_t d, code_bytes;
    const float *origins, *steps;
    const float *codebooks; /* (d, entries): for each component those of all entries of its part's codebook */
    int64_t entries;        /* a power of two, at most 256; what is more in a code is ignored */
} ingot_codes;

/* Bytes that ingot_prepare_codes needs at `prepared`, which must begin at a line of the cache. */
int64_t ingot_prepared_bytes(const ingot_codes *codes);

/* Computes what the keys of a query have in common for codes of differences to `centroid` (NULL: of the vectors). */
void ingot_prepare_codes(const ingot_codes *codes, const float *query, const float *centroid, float *prepared);

/* Writes the keys of rows of codes, small ones for near ones as in distances.h. Nothing is read at `end` and behind. */
void ingot_coded_keys(const ingot_codes *codes, const float *query, float *prepared, const char *rows, int64_t row_count,
                      const char *end, float *keys);

#endif
