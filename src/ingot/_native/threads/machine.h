/* What this process may use of the machine: memory in bytes and CPUs, with container limits respected. */
#ifndef INGOT_MACHINE_H
#define INGOT_MACHINE_H

#include <stdint.h>

#define INGOT_NO_LIMIT INT64_MAX

/* The smallest limit that a control group (version 1 or 2) or one of its ancestors sets, INGOT_NO_LIMIT if none does.
 * `root` goes before /proc and /sys: "" for the real machine; tests give a directory with files of their own. */
int64_t ingot_cgroup_memory(const char *root);
int64_t ingot_cgroup_cpus(const char *root);

/* Physical memory, or the control group's limit where that is smaller. */
int64_t ingot_machine_memory(void);

/* Bytes that could ever be handed out: machine memory, and the swap space where no control group is in the way. */
int64_t ingot_machine_reach(void);

/* CPUs this process may run on, by affinity and by quota; at least 1. */
int ingot_machine_cpus(void);

/* The widest vector instructions that processor and system offer: those of AVX-512 (F and VL) or of AVX2 with FMA. */
enum { INGOT_BASIC_VECTORS, INGOT_AVX2, INGOT_AVX512 };
int ingot_machine_vectors(void);

/* 1 and the number if the variable is set to one from `least` to `most`, 0 if it is not set, -1 if it is set wrongly. */
int ingot_environment_number(const char *name, long least, long most, long *number);

#endif
