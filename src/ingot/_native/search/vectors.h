/* Vectors of 16 floats (compiler vector types), and functions in versions for several instruction sets. */
#ifndef INGOT_VECTORS_H
#define INGOT_VECTORS_H

#include <stdint.h>
#include <string.h>

/* Not with ThreadSanitizer, because the resolvers run during loading, before it is initialised; not with clang,
 * whose resolvers do not link under Zig. */
#if !defined(__clang__) && defined(__x86_64__) && defined(__gnu_linux__) && defined(__has_attribute) && \
    !defined(__SANITIZE_THREAD__)
#if __has_attribute(target_clones)
#define FOR_EACH_MACHINE __attribute__((target_clones("avx512f", "avx2", "default")))
/* For functions that are called only if ingot_has_avx512() is true. */
#define AVX512 __attribute__((target("avx512f,avx512vl,avx512dq,popcnt")))
static inline int ingot_has_avx512(void) {
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") && __builtin_cpu_supports("avx512dq");
}
/* For functions that are called only if ingot_has_avx2() is true, or in such as have AVX512. */
#define AVX2 __attribute__((target("avx2")))
static inline int ingot_has_avx2(void) {
    return __builtin_cpu_supports("avx2");
}
#endif
#endif
#ifndef FOR_EACH_MACHINE
#define FOR_EACH_MACHINE
#endif

#define INLINE static inline __attribute__((always_inline))

enum { LANES = 16 };

typedef float Lanes __attribute__((vector_size(64)));
typedef int32_t Bits __attribute__((vector_size(64)));

/* Vectors are passed by address, because passing them by value depends on the instruction set. */

INLINE void load(Lanes *to, const float *from) {
    memcpy(to, from, sizeof *to);
}

typedef float Half __attribute__((vector_size(32)));
typedef float Quarter __attribute__((vector_size(16)));

INLINE float total(const Lanes *lanes) {
    Half halves[2];
    memcpy(halves, lanes, sizeof halves);
    halves[0] += halves[1];
    Quarter quarters[2];
    memcpy(quarters, halves, sizeof quarters);
    quarters[0] += quarters[1];
    return (quarters[0][0] + quarters[0][2]) + (quarters[0][1] + quarters[0][3]);
}

#endif
