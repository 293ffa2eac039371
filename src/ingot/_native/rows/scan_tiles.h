/* Segments of adjacent elements that are scanned in lanes, tile by tile into a buffer in L1. */
#ifndef INGOT_SCAN_TILES_H
#define INGOT_SCAN_TILES_H

#include <stdbool.h>
#include <stdint.h>

#include "rows/scan_kernels.h"

/* A scan of SEGMENTS segments in lanes: a function of a kernel. */
typedef void (*ingot_scan_segments)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count,
                                    void *values);

/* Scans the first `number` segments, whose lengths do not ascend. Lanes without a segment read the first one again, and
 * nothing of them is stored. With `to` NULL, nothing is stored at all. `values` holds the carries and becomes those after
 * the last elements. */
void ingot_scan_few(const ingot_scan_kernel *kernel, ingot_scan_segments segments, const char *const *from, char *const *to,
                    int64_t itemsize, const int64_t *lengths, int number, char *values);

/* Whether there are stores that go past the caches. They spare reading the lines that they overwrite. */
bool ingot_can_scan_past_caches(void);

/* Scans SEGMENTS segments of one length, and stores whole cache lines of results past the caches. */
void ingot_scan_past_caches(ingot_scan_segments segments, const char *const *from, char *const *to, int64_t itemsize,
                            int64_t length, char *values);

#endif
