/* Products of queries and rows, compared with limits while they are in registers.
 *
 * Queries are interleaved in panels that stay in L1, so that one vector instruction multiplies a broadcast component
 * of a row, which needs no packing, with as many queries as a register holds. */
#include "search/near_products.h"

#include <stddef.h>
#include <string.h>

#include "threads/machine.h"

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("fp-contract=fast") /* use FMA for x * y + z where available */
#endif

#define INLINE static inline __attribute__((always_inline))

#if defined(__x86_64__) && defined(__GNUC__)
#define SEVERAL_MACHINES 1

#define MACHINE avx512
#define TARGET __attribute__((target("avx512f")))
#define LANES 16
#define VECTORS 3
#define ROWS 8
#include "search/near_products_loop.h"

/* For few queries: some processors take half the time for half-width registers. */
#define MACHINE avx512_half
#define TARGET __attribute__((target("avx512f,avx512vl")))
#define LANES 8
#define VECTORS 1
#define ROWS 8
#include "search/near_products_loop.h"

#define MACHINE avx2
#define TARGET __attribute__((target("avx2,fma")))
#define LANES 8
#define VECTORS 2
#define ROWS 6
#include "search/near_products_loop.h"
#endif

#define MACHINE any
#define TARGET
#define LANES 4
#define VECTORS 4
#define ROWS 3
#include "search/near_products_loop.h"

typedef int64_t Loop(const float *, int64_t, const float *, const float *, int64_t, int64_t, const float *, const float *,
                     ingot_hit *);

typedef struct {
    int64_t width, lanes; /* floats in a panel, and in a register */
    Loop *loop;
    int64_t few; /* up to this many queries, a narrower loop is used */
    Loop *loop_for_few;
} Machine;

static Machine this_machine(void) {
#ifdef SEVERAL_MACHINES
    int vectors = ingot_machine_vectors();
    if (vectors == INGOT_AVX512)
        return (Machine){3 * 16, 16, near_products_avx512, 8, near_products_avx512_half};
    if (vectors == INGOT_AVX2)
        return (Machine){2 * 8, 8, near_products_avx2, 0, NULL};
#endif
    return (Machine){4 * 4, 4, near_products_any, 0, NULL};
}

int64_t ingot_panel_width(void) {
    return this_machine().width;
}

static int64_t padded_panel(const Machine *machine, int64_t count) {
    if (count <= machine->few)
        return machine->few;
    return (count + machine->lanes - 1) / machine->lanes * machine->lanes;
}

int64_t ingot_padded_queries(int64_t count) {
    Machine machine = this_machine();
    int64_t rest = count % machine.width;
    return count - rest + (rest == 0 ? 0 : padded_panel(&machine, rest));
}

void ingot_lay_out_queries(const float *queries, int64_t count, int64_t d, float *panels) {
    Machine machine = this_machine();
    for (int64_t begin = 0; begin < count; begin += machine.width) {
        int64_t here = count - begin < machine.width ? count - begin : machine.width;
        int64_t width = padded_panel(&machine, here);
        for (int64_t i = 0; i < d; i++, panels += width) {
            for (int64_t q = 0; q < width; q++)
                panels[q] = q < here ? queries[(begin + q) * d + i] : 0;
        }
    }
}

int64_t ingot_near_products(const float *panel, int64_t query_count, const float *limits, const float *rows, int64_t row_count,
                            int64_t d, const float *factors, const float *terms, ingot_hit *hits) {
    Machine machine = this_machine();
    Loop *loop = query_count <= machine.few ? machine.loop_for_few : machine.loop;
    return loop(panel, query_count, limits, rows, row_count, d, factors, terms, hits);
}
