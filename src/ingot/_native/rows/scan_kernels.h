/* The inner loops of scans, one for each kind and element type. */
#ifndef INGOT_SCAN_KERNELS_H
#define INGOT_SCAN_KERNELS_H

#include <stdint.h>

#include "rows/scan.h"

enum {
    SEGMENTS = 8,  /* segments that one call processes */
    IN_STEP = 4,   /* segments in lockstep, whose dependency chains overlap */
    LINE = 64,     /* bytes in a cache line */
    COLUMNS = 256, /* rows side by side: a few cache lines per element index */
    MAX_VALUE = 8, /* maximum size of a carry in bytes */
};

typedef struct {
    void (*segments)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count, void *values);
    /* The same in lanes of vectors, with AVX-512 and with AVX2; NULL if there is no such version. */
    void (*segments_in_lanes)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count, void *values);
    void (*segments_in_few_lanes)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count,
                                  void *values);
    void (*segment)(const char *from, char *to, int64_t in, int64_t out, int64_t count, void *value);
    /* Rows one by one, which are strides[0] apart; their elements are strides[1] apart. NULL where lanes are
     * faster. */
    void (*rows)(const char *from, char *to, const int64_t *in, const int64_t *out, int64_t length, int64_t count);
    void (*columns)(const char *from, char *to, int64_t in, int64_t out, int64_t count, int64_t width);
    void (*start)(void *values, int64_t count);    /* fills in the identity */
    void (*follow)(void *value, const void *next); /* value = combine(value, next) */
    int64_t value_size;
} ingot_scan_kernel;

/* NULL if there is no such kernel. */
const ingot_scan_kernel *ingot_find_scan(ingot_scan_kind kind, int dtype);

#endif
