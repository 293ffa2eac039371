/* The machine resources that this process may use. Does not use Python, so that the allocator and the pool can call
 * it at any time. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "threads/machine.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#if defined(__x86_64__) && defined(__GNUC__)
#include <cpuid.h>
#endif
#ifdef __linux__
#include <sched.h>
#include <sys/sysinfo.h>
#endif

#define PATH_BYTES 4096

/* Reads a limit from the files of a cgroup directory; INGOT_NO_LIMIT if there is none. */
typedef int64_t (*limit_reader)(const char *directory);

static bool read_line(const char *directory, const char *name, char *line, int bytes) {
    char path[PATH_BYTES];
    if (snprintf(path, sizeof path, "%s/%s", directory, name) >= (int)sizeof path) {
        return false;
    }
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return false;
    }
    bool read = fgets(line, bytes, file) != NULL;
    fclose(file);
    return read;
}

static int64_t read_number(const char *directory, const char *name) {
    char line[64];
    if (!read_line(directory, name, line, sizeof line)) {
        return -1;
    }
    char *end;
    long long number = strtoll(line, &end, 10);
    return end == line ? -1 : number;
}

static int64_t memory_version_1(const char *directory) {
    int64_t bytes = read_number(directory, "memory.limit_in_bytes");
    return bytes < 0 || bytes > INT64_C(1) << 60 ? INGOT_NO_LIMIT : bytes; /* version 1: a huge number means no limit */
}

static int64_t memory_version_2(const char *directory) {
    int64_t bytes = read_number(directory, "memory.max"); /* "max" does not parse: no limit */
    return bytes < 0 ? INGOT_NO_LIMIT : bytes;
}

/* Rounded up: a quota of one and a half CPUs is worth two threads. */
static int64_t cpus_of_quota(int64_t quota, int64_t period) {
    return quota > 0 && period > 0 ? (quota - 1) / period + 1 : INGOT_NO_LIMIT;
}

static int64_t cpus_version_1(const char *directory) {
    return cpus_of_quota(read_number(directory, "cpu.cfs_quota_us"), read_number(directory, "cpu.cfs_period_us"));
}

static int64_t cpus_version_2(const char *directory) {
    char line[64];
    if (!read_line(directory, "cpu.max", line, sizeof line)) {
        return INGOT_NO_LIMIT;
    }
    char *after; /* "max" instead of a quota does not parse and gives 0 */
    long long quota = strtoll(line, &after, 10);
    return cpus_of_quota(quota, strtoll(after, NULL, 10));
}

/* A cgroup is bounded by all its ancestors too. In a container, the path of the cgroup is often not below the mount,
 * so directories that do not exist are skipped on the way up, and the mount itself is always read. */
static int64_t smallest_up_to(const char *mount, const char *group, limit_reader reader) {
    char path[PATH_BYTES];
    int length = snprintf(path, sizeof path, "%s%s", mount, group);
    size_t mount_length = strlen(mount);
    if (length < 0 || length >= (int)sizeof path) {
        return reader(mount);
    }
    int64_t smallest = INGOT_NO_LIMIT;
    while (strlen(path) >= mount_length) {
        int64_t limit = reader(path);
        smallest = limit < smallest ? limit : smallest;
        char *slash = strrchr(path, '/');
        if (slash == NULL || slash < path + mount_length) {
            break;
        }
        *slash = '\0';
    }
    return smallest;
}

static bool lists(const char *controllers, const char *name) {
    size_t length = strlen(name);
    for (const char *at = controllers; at != NULL && *at != '\0';) {
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == '\0')) {
            return true;
        }
        at = strchr(at, ',');
        at = at == NULL ? NULL : at + 1;
    }
    return false;
}

/* Each line of /proc/self/cgroup is "number:controllers:path"; controllers are empty in version 2. */
static int64_t cgroup_limit(const char *root, const char *controller, limit_reader version_1, limit_reader version_2) {
    char path[PATH_BYTES / 2], line[PATH_BYTES / 2], mount[PATH_BYTES / 2];
    snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *file = fopen(path, "re");
    if (file == NULL) {
        return INGOT_NO_LIMIT;
    }
    int64_t smallest = INGOT_NO_LIMIT;
    while (fgets(line, sizeof line, file) != NULL) {
        char *end = strchr(line, '\n');
        if (end != NULL) {
            *end = '\0';
        }
        char *controllers = strchr(line, ':');
        char *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
        if (group == NULL) {
            continue;
        }
        *controllers++ = '\0';
        *group++ = '\0';
        if (strcmp(group, "/") == 0) {
            *group = '\0'; /* the mount itself, which is read once */
        }
        const char *folders[2] = {"", "/unified"};
        limit_reader reader = version_2;
        if (*controllers != '\0') {
            if (!lists(controllers, controller)) {
                continue;
            }
            folders[0] = controller;
            folders[1] = controllers; /* for example "cpu,cpuacct" */
            reader = version_1;
        }
        for (int i = 0; i < 2; i++) {
            if (i == 1 && strcmp(folders[0], folders[1]) == 0) {
                continue;
            }
            const char *slash = *folders[i] == '\0' || *folders[i] == '/' ? "" : "/";
            int length = snprintf(mount, sizeof mount, "%s/sys/fs/cgroup%s%s", root, slash, folders[i]);
            if (length < (int)sizeof mount) {
                int64_t limit = smallest_up_to(mount, group, reader);
                smallest = limit < smallest ? limit : smallest;
            }
        }
    }
    fclose(file);
    return smallest;
}

int64_t ingot_cgroup_memory(const char *root) {
    return cgroup_limit(root, "memory", memory_version_1, memory_version_2);
}

int64_t ingot_cgroup_cpus(const char *root) {
    return cgroup_limit(root, "cpu", cpus_version_1, cpus_version_2);
}

static int64_t physical_memory(void) {
    int64_t pages = sysconf(_SC_PHYS_PAGES);
    int64_t page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? pages * page : INT64_C(4) << 30;
}

int64_t ingot_machine_memory(void) {
    int64_t group = ingot_cgroup_memory("");
    int64_t physical = physical_memory();
    return group < physical ? group : physical;
}

int64_t ingot_machine_reach(void) {
    int64_t memory = ingot_machine_memory();
#ifdef __linux__
    struct sysinfo info;
    if (memory == physical_memory() && sysinfo(&info) == 0) {
        memory += (int64_t)info.totalswap * info.mem_unit;
    }
#endif
    return memory;
}

int ingot_machine_cpus(void) {
    int64_t cpus = sysconf(_SC_NPROCESSORS_ONLN);
#ifdef __linux__
    /* The set must be at least as large as the kernel's, whose size is not known beforehand. */
    for (int possible = 1024; possible <= 1 << 16; possible *= 2) {
        cpu_set_t *set = CPU_ALLOC(possible);
        size_t bytes = CPU_ALLOC_SIZE(possible);
        bool known = set != NULL && sched_getaffinity(0, bytes, set) == 0;
        cpus = known ? CPU_COUNT_S(bytes, set) : cpus;
        CPU_FREE(set);
        if (known) {
            break;
        }
    }
#endif
    int64_t quota = ingot_cgroup_cpus("");
    cpus = quota < cpus ? quota : cpus;
    return cpus < 1 ? 1 : (int)cpus;
}

int ingot_environment_number(const char *name, long least, long most, long *number) {
    const char *text = getenv(name);
    if (text == NULL || *text == '\0') {
        return 0;
    }
    char *end;
    long value = strtol(text, &end, 10);
    if (*end != '\0' || value < least || value > most) {
        return -1;
    }
    *number = value;
    return 1;
}

/* Uses CPUID directly: the compilers' builtins for this do not link with every toolchain. */
static int find_vectors(void) {
#if defined(__x86_64__) && defined(__GNUC__)
    unsigned a, b, c, d;
    const unsigned fma = 1u << 12, saves_registers = 1u << 27;
    if (!__get_cpuid(1, &a, &b, &c, &d) || (c & (fma | saves_registers)) != (fma | saves_registers)) {
        return INGOT_BASIC_VECTORS;
    }
    unsigned saved, upper;
    __asm__ volatile("xgetbv" : "=a"(saved), "=d"(upper) : "c"(0));
    const unsigned avx2 = 1u << 5, avx512 = 1u << 16 | 1u << 31;
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d) || (b & avx2) == 0 || (saved & 0x06) != 0x06) {
        return INGOT_BASIC_VECTORS;
    }
    return (b & avx512) == avx512 && (saved & 0xe6) == 0xe6 ? INGOT_AVX512 : INGOT_AVX2;
#else
    return INGOT_BASIC_VECTORS;
#endif
}

int ingot_machine_vectors(void) {
    static atomic_int known = -1; /* cached, because CPUID is slow in virtual machines */
    int vectors = atomic_load_explicit(&known, memory_order_relaxed);
    if (vectors < 0) {
        vectors = find_vectors();
        atomic_store_explicit(&known, vectors, memory_order_relaxed);
    }
    return vectors;
}
