/* Small messages between ranks of one machine, by loads and stores.
 *
 * An MPI_Allgather of two ranks of one machine takes MPICH 1.2 us if threads may call it, of which moving the bytes is a tenth.
 * MPI can allocate memory that such ranks share (MPI_Win_allocate_shared). Each has a segment there with two slots: a number
 * and an envelope. A rank writes its envelope of call n to slot n % 2 and then the number n + 1, and waits for that number in
 * the slots of the others.
 *
 * Two slots are enough: before a rank overwrites a slot in call n + 2, it has seen the numbers of call n + 1 of all ranks, and
 * each rank wrote that number after it had read all envelopes of call n. */
#include "communication/shared.h"

#include <sched.h>
#include <stdatomic.h>

#define LINE 64           /* bytes of a cache line */
#define SPINS_WITH_GIL 64 /* about a microsecond: the others are usually there by then, and giving up the GIL takes 0.1 */
#define SPINS 100         /* before the core is offered to others: ranks may have to share it */
#define POLL_EVERY 16     /* times that the core was offered */

struct SharedSlots {
    size_t size, rank, envelope;
    char *segments[]; /* of all ranks */
};

static size_t slot_bytes(size_t envelope) {
    return LINE + (envelope + LINE - 1) / LINE * LINE;
}

size_t ingot_shared_bytes(size_t envelope) {
    return 2 * slot_bytes(envelope);
}

SharedSlots *ingot_shared_new(char *const *segments, size_t size, size_t rank, size_t envelope) {
    SharedSlots *self = PyMem_Malloc(sizeof *self + size * sizeof *segments);
    if (self == NULL)
        return NULL;
    self->size = size;
    self->rank = rank;
    self->envelope = envelope;
    memcpy(self->segments, segments, size * sizeof *segments);
    return self;
}

void ingot_shared_free(SharedSlots *self) {
    PyMem_Free(self);
}

static char *slot_of(const SharedSlots *self, size_t rank, int64_t call) {
    return self->segments[rank] + (size_t)(call & 1) * slot_bytes(self->envelope);
}

static bool has_come(const char *slot, int64_t call) {
    return atomic_load_explicit((const _Atomic int64_t *)slot, memory_order_acquire) > call;
}

static void pause_briefly(void) {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
}

/* Whether the slots of all ranks have come after so many looks; `rank` is the first that has not been seen. */
static bool spin(const SharedSlots *self, int64_t call, size_t *rank, int spins) {
    for (int i = 0; i < spins; i++) {
        while (has_come(slot_of(self, *rank, call), call))
            if (++*rank == self->size)
                return true;
        pause_briefly();
    }
    return false;
}

static void wait_for_all(const SharedSlots *self, int64_t call, void (*poll)(const void *), const void *about) {
    size_t rank = 0;
    if (spin(self, call, &rank, SPINS_WITH_GIL))
        return;
    PyThreadState *state = PyEval_SaveThread();
    for (int64_t offers = 0; !spin(self, call, &rank, offers == 0 ? SPINS : 1); offers++) {
        sched_yield();
        if (offers % POLL_EVERY == 0) /* what a rank waits for before it comes may be a message of this one */
            poll(about);
    }
    PyEval_RestoreThread(state);
}

void ingot_shared_exchange(SharedSlots *self, int64_t call, const char *envelope, char *incoming, void (*poll)(const void *),
                           const void *about) {
    char *mine = slot_of(self, self->rank, call);
    memcpy(mine + LINE, envelope, self->envelope);
    atomic_store_explicit((_Atomic int64_t *)mine, call + 1, memory_order_release);
    wait_for_all(self, call, poll, about);
    for (size_t rank = 0; rank < self->size; rank++)
        memcpy(incoming + rank * self->envelope, slot_of(self, rank, call) + LINE, self->envelope);
}
