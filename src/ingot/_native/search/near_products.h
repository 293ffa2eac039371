/* Products of many queries with the rows of a database, of which only those that may matter are ever written down: the
 * inner loop of a search. Without Python. */
#ifndef INGOT_NEAR_PRODUCTS_H
#define INGOT_NEAR_PRODUCTS_H

#include <stdint.h>

/* Rows that are a whole number of steps on every machine. */
enum { INGOT_ROW_STEP = 48 };

/* Queries are laid out in panels of this many, the last of which may have fewer and is filled up to whole registers. In
 * a panel, the first components of all queries come first, then the second ones... */
int64_t ingot_panel_width(void);

/* How many queries there must be room for if `count` of them are laid out. */
int64_t ingot_padded_queries(int64_t count);

/* Lays out `count` queries of length `d`, one behind the other; what is filled up is zero. */
void ingot_lay_out_queries(const float *queries, int64_t count, int64_t d, float *panels);

typedef struct {
    float value;
    int32_t query, row;
} ingot_hit;

/* Writes which queries of one panel and which rows have a value terms[row] - factors[row] * product that is not more than
 * limits[query] (NaN is not). Returns how many; there must be room for all, and for one more. `limits` has as many numbers
 * as the panel has places. */
int64_t ingot_near_products(const float *panel, int64_t query_count, const float *limits, const float *rows, int64_t row_count,
                            int64_t d, const float *factors, const float *terms, ingot_hit *hits);

#endif
