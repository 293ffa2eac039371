/* The machine resources that this process may use: bytes of memory and CPUs, within container limits. */
#ifndef INGOT_MACHINE_H
#define INGOT_MACHINE_H

#include <stdint.h>

#define INGOT_NO_LIMIT INT64_MAX

/* The smallest limit set by the process's cgroup (version 1 or 2) or one of its ancestors, INGOT_NO_LIMIT if there
 * is none. `root` is a prefix of /proc and /sys: "" for the real machine, or a directory with test files. */
int64_t ingot_cgroup_memory(const char *root);
int64_t ingot_cgroup_cpus(const char *root);

/* Physical memory, or the cgroup limit where that is smaller. */
int64_t ingot_machine_memory(void);

/* Upper bound on the bytes that can ever be allocated: machine memory, plus swap space unless a cgroup limits
 * memory. */
int64_t ingot_machine_reach(void);

/* CPUs this process may run on, by affinity and by quota; at least 1. */
int ingot_machine_cpus(void);

/* The widest vector instructions that processor and operating system support: AVX-512 (F and VL), or AVX2 with FMA. */
enum { INGOT_BASIC_VECTORS, INGOT_AVX2, INGOT_AVX512 };
int ingot_machine_vectors(void);

/* Parses an environment variable: 1 if it is a number from `least` to `most`, 0 if it is not set, -1 if it is
 * invalid. */
int ingot_environment_number(const char *name, long least, long most, long *number);

#endif
