/* Scans: out[i] combines x[0] to x[i] along rows.
 *
 * The order is fixed, so that results depend neither on the number of threads nor on the layout: rows are cut into chunks of
 * SCAN_CHUNK elements; those of a chunk are combined one after the other, starting from what all chunks before it give; and
 * these are the chunks' own results combined one after the other. Sums of floats are kept in double precision. */
#ifndef INGOT_SCAN_H
#define INGOT_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "rows/select.h"

typedef enum { SCAN_SUM, SCAN_PRODUCT, SCAN_MAXIMUM, SCAN_MINIMUM, SCAN_LOGADDEXP } ingot_scan_kind;

typedef struct {
    ingot_scan_kind kind;
    int dtype; /* no half type, and no complex one */
    int64_t before, length, behind;
    ingot_rows elements, results;
} ingot_scan;

/* Whether there is code for that. */
bool ingot_can_scan(ingot_scan_kind kind, int dtype);

/* False if there is no memory, or, with an exception, if a signal ended it. */
bool ingot_scan_rows(const ingot_scan *scan);

#endif
