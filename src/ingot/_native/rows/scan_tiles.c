/* Scans by way of a buffer. The results of a tile wait in L1, from where those of the segments there are, or whole cache
 * lines of them, are stored. */
#include "native.h" /* first: it includes Python's header, which must come before those of the system */

#include "rows/scan_tiles.h"

#include <string.h>

#include "integers.h"

#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum { TILE = 512 }; /* bytes of each segment, a multiple of LINE: all buffers take a tenth of L1 */

void ingot_scan_few(const ingot_scan_kernel *kernel, ingot_scan_segments segments, const char *const *from, char *const *to,
                    int64_t itemsize, const int64_t *lengths, int number, char *values) {
    char buffers[SEGMENTS][TILE + LINE], ends[SEGMENTS * MAX_VALUE], *targets[SEGMENTS];
    const char *sources[SEGMENTS];
    int64_t size = kernel->value_size;
    int active = number;
    memcpy(ends, values, (size_t)(number * size));
    for (int s = 0; s < SEGMENTS; s++)
        targets[s] = buffers[s];
    for (int64_t at = 0, count; at < lengths[0]; at += count) {
        for (; lengths[active - 1] <= at; active--) /* its lane goes on with other elements */
            memcpy(ends + (active - 1) * size, values + (active - 1) * size, (size_t)size);
        count = smaller(TILE / itemsize, lengths[active - 1] - at);
        for (int s = 0; s < SEGMENTS; s++)
            sources[s] = from[s < active ? s : 0] + at * itemsize;
        segments(sources, to == NULL ? NULL : targets, itemsize, itemsize, count, values);
        for (int s = 0; s < active && to != NULL; s++)
            memcpy(to[s] + at * itemsize, buffers[s], (size_t)(count * itemsize));
    }
    memcpy(ends, values, (size_t)(active * size));
    memcpy(values, ends, (size_t)(number * size));
}

#ifdef __SSE2__
bool ingot_can_scan_past_caches(void) {
    return true;
}

/* Stores a tile of a segment. The buffer has the tile where `to` is in its cache line, and before it what is left of the
 * tile before; what does not fill a line stays, at its beginning, for the next one. */
static void store_lines(char *to, char *buffer, int64_t nbytes, bool is_first, bool is_last) {
    int64_t offset = (int64_t)((uintptr_t)to % LINE), end = offset + nbytes, line = 0;
    char *lines = to - offset;
    if (is_first && offset > 0) { /* the beginning of the line belongs to others */
        memcpy(to, buffer + offset, (size_t)(smaller(LINE, end) - offset));
        line = LINE;
    }
    for (; line + LINE <= end; line += LINE)
        for (int64_t i = line; i < line + LINE; i += (int64_t)sizeof(__m128i))
            _mm_stream_si128((__m128i *)(void *)(lines + i), _mm_load_si128((const __m128i *)(const void *)(buffer + i)));
    if (!is_last)
        memcpy(buffer, buffer + line, LINE);
    else if (line < end)
        memcpy(lines + line, buffer + line, (size_t)(end - line));
}

void ingot_scan_past_caches(ingot_scan_segments segments, const char *const *from, char *const *to, int64_t itemsize,
                            int64_t length, char *values) {
    char buffers[SEGMENTS][TILE + LINE] __attribute__((aligned(LINE))), *targets[SEGMENTS];
    const char *sources[SEGMENTS];
    int64_t total = length * itemsize;
    for (int s = 0; s < SEGMENTS; s++)
        targets[s] = buffers[s] + (uintptr_t)to[s] % LINE;
    for (int64_t at = 0; at < total; at += TILE) {
        int64_t nbytes = smaller(TILE, total - at);
        for (int s = 0; s < SEGMENTS; s++)
            sources[s] = from[s] + at;
        segments(sources, targets, itemsize, itemsize, nbytes / itemsize, values);
        for (int s = 0; s < SEGMENTS; s++)
            store_lines(to[s] + at, buffers[s], nbytes, at == 0, at + TILE >= total);
    }
    _mm_sfence();
}
#else
bool ingot_can_scan_past_caches(void) {
    return false;
}

void ingot_scan_past_caches(ingot_scan_segments segments, const char *const *from, char *const *to, int64_t itemsize,
                            int64_t length, char *values) {
    segments(from, to, itemsize, itemsize, length, values);
}
#endif
