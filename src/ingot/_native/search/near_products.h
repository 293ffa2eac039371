/* Products of many queries with the rows of a database, which writes only those that may matter: the inner loop of a
 * search. Does not use Python. */
#ifndef INGOT_NEAR_PRODUCTS_H
#define INGOT_NEAR_PRODUCTS_H

#include <stdint.h>

/* A multiple of the row step of every instruction set. */
enum { INGOT_ROW_STEP = 48 };

/* Queries are packed into panels of this width. The last panel may have fewer and is padded to whole registers. A
 * panel holds the first component of each of its queries, then the second ones, and so on. */
int64_t ingot_panel_width(void);

/* The padded size of `count` queries. */
int64_t ingot_padded_queries(int64_t count);

/* Packs `count` contiguous queries of length `d`; the padding is zero. */
void ingot_lay_out_queries(const float *queries, int64_t count, int64_t d, float *panels);

typedef struct {
    float value;
    int32_t query, row;
} ingot_hit;

/* Writes the pairs of a query of one panel and a row whose value terms[row] - factors[row] * product is not greater
 * than limits[query] (NaN is included). Returns how many; there must be room for all pairs and one more. `limits`
 * has one entry per query of the padded panel. */
int64_t ingot_near_products(const float *panel, int64_t query_count, const float *limits, const float *rows, int64_t row_count,
                            int64_t d, const float *factors, const float *terms, ingot_hit *hits);

#endif
