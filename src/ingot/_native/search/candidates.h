/* The nearest rows found so far for one query: an unordered list with spare capacity. When it is full, it is pruned
 * to the nearest, and the farthest of these becomes the limit for further rows. */
#ifndef INGOT_CANDIDATES_H
#define INGOT_CANDIDATES_H

#include <float.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

#include "integers.h"

typedef struct {
    float key; /* smaller is nearer, see distances.h */
    int64_t row;
} ingot_candidate;

enum { LEAST_ROOM = 16 }; /* minimum spare capacity */

typedef struct {
    ingot_candidate *items;
    int64_t count, room, wanted;
    float limit; /* larger keys are rejected */
} Candidates;

static inline bool before(const ingot_candidate *a, const ingot_candidate *b) {
    return a->key < b->key || (a->key == b->key && a->row < b->row);
}

/* Partitions the items so that the first `count` are the nearest. */
static inline void select_nearest(ingot_candidate *items, int64_t total, int64_t count) {
    int64_t low = 0, high = total - 1;
    while (low < high) {
        ingot_candidate first = items[low], middle = items[low + (high - low) / 2], last = items[high], pivot = middle;
        if (before(&first, &middle) == before(&last, &first))
            pivot = first;
        else if (before(&middle, &last) == before(&last, &first))
            pivot = last;
        int64_t left = low, right = high;
        while (left <= right) {
            while (before(&items[left], &pivot))
                left++;
            while (before(&pivot, &items[right]))
                right--;
            if (left <= right) {
                ingot_candidate moved = items[left];
                items[left++] = items[right];
                items[right--] = moved;
            }
        }
        if (count - 1 <= right)
            high = right;
        else if (count - 1 >= left)
            low = left;
        else
            return;
    }
}

static inline void keep_nearest(Candidates *self) {
    select_nearest(self->items, self->count, self->wanted);
    self->count = self->wanted;
    float farthest = self->items[0].key;
    for (int64_t i = 1; i < self->count; i++)
        farthest = self->items[i].key > farthest ? self->items[i].key : farthest;
    self->limit = farthest;
}

/* A list with `wanted` 0 grows without bound. If memory runs out, it drops further candidates, and `room` is -1 from
 * then on. */
static inline void add_candidate(Candidates *self, float key, int64_t row) {
    if (!(key <= self->limit && key >= -FLT_MAX) || self->room < 0)
        return;
    if (self->count == self->room) {
        if (self->wanted > 0) {
            keep_nearest(self);
            if (!(key <= self->limit))
                return;
        } else {
            int64_t room = self->room == 0 ? 16 : 2 * self->room;
            ingot_candidate *items = realloc(self->items, (size_t)room * sizeof *items);
            self->room = items == NULL ? -1 : room;
            if (items == NULL)
                return;
            self->items = items;
        }
    }
    self->items[self->count++] = (ingot_candidate){key, row};
}

static inline int by_nearness(const void *a, const void *b) {
    return before(a, b) ? -1 : 1;
}

/* Sorts the wanted candidates to the front, nearest first. Returns how many there are. */
static inline int64_t sort_candidates(Candidates *self) {
    if (self->count > self->wanted)
        select_nearest(self->items, self->count, self->wanted);
    self->count = smaller(self->count, self->wanted);
    qsort(self->items, (size_t)self->count, sizeof *self->items, by_nearness);
    return self->count;
}

/* The capacity for a list that is offered `offered` rows. */
static inline int64_t room_for(int64_t wanted, int64_t offered) {
    return smaller(wanted + larger(wanted, LEAST_ROOM), larger(offered, wanted + 1));
}

/* Rounds up to whole cache lines, so that the arrays of one block of memory are aligned to them. */
static inline size_t padded(size_t bytes) {
    return (bytes + 63) / 64 * 64;
}

static inline void *cut(char **memory, size_t bytes) {
    void *part = *memory;
    *memory += padded(bytes);
    return part;
}

#endif
