/* The loops of scans, for each kind and type of elements. */
#ifndef INGOT_SCAN_KERNELS_H
#define INGOT_SCAN_KERNELS_H

#include <stdint.h>

#include "rows/scan.h"

enum {
    TOGETHER = 8,  /* segments that one call goes through */
    IN_STEP = 4,   /* of them in step: their chains of operations do not wait for each other */
    LINE = 64,     /* bytes of a cache line */
    COLUMNS = 256, /* rows side by side: a few cache lines of each element */
    MAX_VALUE = 8, /* bytes of what is carried on */
};

typedef struct {
    void (*segments)(const char *const *from, char *const *to, int64_t in, int64_t out, int64_t count, void *values);
    void (*segment)(const char *from, char *to, int64_t in, int64_t out, int64_t count, void *value);
    void (*columns)(const char *from, char *to, int64_t in, int64_t out, int64_t count, int64_t width);
    void (*start)(void *values, int64_t count);    /* results of no elements */
    void (*follow)(void *value, const void *next); /* the result of elements, and then of others */
    int64_t value_size;
} ingot_scan_kernel;

/* NULL if there is none. */
const ingot_scan_kernel *ingot_find_scan(ingot_scan_kind kind, int dtype);

#endif
