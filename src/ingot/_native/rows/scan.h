/* Scans: out[i] combines x[0] to x[i] along rows.
 *
 * The order of operations is fixed, so that results depend neither on the number of threads nor on the layout. Rows
 * are divided into chunks of SCAN_CHUNK elements. The elements of a chunk are combined sequentially, starting from
 * the carry of the chunks before it; the carry combines the results of whole chunks sequentially. Sums of floats
 * accumulate in double precision. */
#ifndef INGOT_SCAN_H
#define INGOT_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "rows/rows.h"

typedef enum { SCAN_SUM, SCAN_PRODUCT, SCAN_MAXIMUM, SCAN_MINIMUM, SCAN_LOGADDEXP } ingot_scan_kind;

typedef struct {
    ingot_scan_kind kind;
    int dtype; /* neither half-precision nor complex */
    int64_t before, length, behind;
    ingot_rows elements, results;
} ingot_scan;

/* Whether this kind of scan supports the dtype. */
bool ingot_can_scan(ingot_scan_kind kind, int dtype);

/* False if memory is short or, with an exception set, if a signal stopped it. */
bool ingot_scan_rows(const ingot_scan *scan);

#endif
