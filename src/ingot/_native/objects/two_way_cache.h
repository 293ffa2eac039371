/* A set-associative cache: two entries per set, the most recently used first, keyed by lists of words. */
#ifndef INGOT_TWO_WAY_CACHE_H
#define INGOT_TWO_WAY_CACHE_H
#include "native.h"

/* The key of a lookup, and the first member of every entry. */
typedef struct {
    uint64_t hash, serial; /* the serial number tells an entry from a later one at the same address */
    size_t count;
    uint64_t *words;
} WordKey;

typedef WordKey *CacheSet[2];

static inline uint64_t hash_words(const uint64_t *words, size_t count) {
    uint64_t hash = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < count; i++) {
        hash = (hash ^ words[i]) * 0xff51afd7ed558ccdu;
        hash ^= hash >> 32;
    }
    return hash;
}

/* The entry for a key, or NULL. `accepts` may reject an entry with an equal key (NULL: none is rejected); it may run
 * Python, and with it other threads that replace the entry. */
static inline WordKey *cache_find(CacheSet *sets, size_t set_count, const WordKey *key,
                                  bool (*accepts)(const WordKey *entry, const void *context), const void *context) {
    WordKey **set = sets[key->hash % set_count];
    for (int way = 0; way < 2; way++) {
        WordKey *entry = set[way];
        if (entry == NULL || entry->hash != key->hash || entry->count != key->count ||
            memcmp(entry->words, key->words, key->count * sizeof *key->words) != 0)
            continue;
        uint64_t serial = entry->serial;
        if (accepts != NULL && (!accepts(entry, context) || set[way] != entry || entry->serial != serial))
            continue;
        set[way] = set[0];
        set[0] = entry;
        return entry;
    }
    return NULL;
}

/* Adds an entry; returns the evicted one, or NULL. */
static inline WordKey *cache_add(CacheSet *sets, size_t set_count, WordKey *entry) {
    static uint64_t last_serial;
    entry->serial = ++last_serial;
    WordKey **set = sets[entry->hash % set_count], *evicted = set[1];
    set[1] = set[0];
    set[0] = entry;
    return evicted;
}

static inline void cache_clear(CacheSet *sets, size_t set_count, void (*release)(WordKey *entry)) {
    for (size_t i = 0; i < 2 * set_count; i++) {
        WordKey *entry = sets[i / 2][i % 2];
        sets[i / 2][i % 2] = NULL;
        if (entry != NULL)
            release(entry);
    }
}

#endif
