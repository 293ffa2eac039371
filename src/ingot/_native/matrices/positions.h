/* Row exchanges as a permutation. */
#ifndef INGOT_POSITIONS_H
#define INGOT_POSITIONS_H

#include <stdint.h>

/* The position of each row after all exchanges: row i with row pivots[i], in order. Exchanging the positions themselves in the
 * opposite order gives the inverse permutation. */
static inline void ingot_set_positions(const uint32_t *pivots, int64_t exchanges, uint32_t *positions, int64_t rows) {
    for (int64_t i = 0; i < rows; i++)
        positions[i] = (uint32_t)i;
    for (int64_t i = exchanges - 1; i >= 0; i--) {
        uint32_t position = positions[i];
        positions[i] = positions[pivots[i]];
        positions[pivots[i]] = position;
    }
}

#endif
