/* The monotonic clock, in nanoseconds. */
#ifndef INGOT_CLOCK_H
#define INGOT_CLOCK_H

#include <stdint.h>
#include <time.h>

static inline int64_t ingot_read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * INT64_C(1000000000) + now.tv_nsec;
}

static inline int64_t ingot_now(void) {
    return ingot_read_clock(CLOCK_MONOTONIC);
}

#endif
