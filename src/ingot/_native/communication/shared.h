/* Envelopes of ranks of one machine, exchanged in a window of shared memory that MPI has allocated (shared.c). */
#ifndef INGOT_SHARED_H
#define INGOT_SHARED_H

#include "native.h"

typedef struct SharedSlots SharedSlots;

/* Bytes of the segment that each rank contributes for envelopes of some length; they must be zero before the first exchange. */
size_t ingot_shared_bytes(size_t envelope);
/* `segments` are the addresses of the segments of all ranks, in their order. NULL if there is no memory. */
SharedSlots *ingot_shared_new(char *const *segments, size_t size, size_t rank, size_t envelope);
/* Publishes this rank's envelope of a call, which are numbered from 0, and copies those of all into `incoming`. Called with
 * the GIL, which it releases if others are late. `poll` is called now and then meanwhile, without the GIL. */
void ingot_shared_exchange(SharedSlots *self, int64_t call, const char *envelope, char *incoming, void (*poll)(const void *),
                           const void *about);
void ingot_shared_free(SharedSlots *self);

#endif
