/* The thread pool.
 *
 * A loop is divided into chunks. Each participating thread owns a run of consecutive chunks (the same ones in the
 * next loop of the same size, whose data may still be in that core's cache) and then steals chunks that others have
 * not begun. The caller never waits for a worker to arrive, only for chunks already begun: if the machine is busy
 * and a worker gets no core, the caller does all the work.
 *
 * `door` says whether there is a loop to join: the OPEN bit, and the number of workers inside. A worker enters by
 * adding one while OPEN is set, which keeps the description of the loop (`loop`) valid until the worker leaves by
 * subtracting one. The caller closes the door when no chunk is left and waits for the number to drop to 0. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "threads/pool.h"

#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include "threads/clock.h"
#include "threads/machine.h"
#include "tuning.h"

#define CACHE_LINE 128 /* two lines, because processors prefetch pairs of lines */

#define LINE 64            /* bytes that a prefetch reads */
#define FETCHED_BYTES 1024 /* between two looks for a call */

#define OPEN 0x80000000u
#define CALLER_SLEEPS 0x40000000u
#define INSIDE 0x0000ffffu

typedef struct {
    _Alignas(CACHE_LINE) atomic_uint calls; /* incremented to wake the worker, which waits for a change */
    atomic_bool sleeps;
    unsigned fetched; /* the announcement that it has read ahead */
    pthread_t thread;
    int left_core; /* the core excluded from its affinity, or -1; guarded by `taken` */
} Worker;

typedef struct {
    _Alignas(CACHE_LINE) atomic_llong next; /* the first unclaimed chunk of this thread's run */
    int64_t end;
} Run;

static struct {
    ingot_loop_body body;
    void *context;
    int64_t begin, count, chunks;
    int threads;
} loop;

/* What ingot_read_ahead was told. Calls of several threads at once may mix up their areas, which is harmless. */
static struct {
    _Alignas(CACHE_LINE) atomic_uint changes;
    atomic_uintptr_t begin[MAX_READ_AHEAD];
    atomic_llong bytes[MAX_READ_AHEAD];
} ahead;

static Worker workers[INGOT_MAXIMUM_THREADS]; /* number 0 is the caller, whose entry is unused */
static Run runs[INGOT_MAXIMUM_THREADS];
static _Alignas(CACHE_LINE) atomic_uint door;
static _Alignas(CACHE_LINE) atomic_bool taken; /* lock: a parallel loop is running */
static atomic_int wanted_threads;
static atomic_bool stopping;
static int started = 1; /* number of threads, the caller included; guarded by `taken` */
static atomic_long spin_nanoseconds;
static long wanted_spin;
static int machine_cpus;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static _Thread_local bool inside_loop;
static _Thread_local int pinned_threads; /* 0: as many as wanted */

/* ---- waiting ---- */

#ifdef __linux__
static void sleep_while(atomic_uint *word, unsigned value) {
    syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, value, NULL, NULL, 0);
}

static void wake(atomic_uint *word) {
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, INT_MAX, NULL, NULL, 0);
}
#else
static pthread_mutex_t sleep_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t sleepers = PTHREAD_COND_INITIALIZER;

static void sleep_while(atomic_uint *word, unsigned value) {
    pthread_mutex_lock(&sleep_lock);
    while (atomic_load(word) == value) {
        pthread_cond_wait(&sleepers, &sleep_lock);
    }
    pthread_mutex_unlock(&sleep_lock);
}

static void wake(atomic_uint *word) {
    (void)word;
    pthread_mutex_lock(&sleep_lock);
    pthread_cond_broadcast(&sleepers);
    pthread_mutex_unlock(&sleep_lock);
}
#endif

static void relax(void) {
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#endif
}

/* ---- reading ahead ---- */

void ingot_read_ahead(const ReadAhead *areas, int count) {
    for (int i = 0; i < MAX_READ_AHEAD; i++) {
        atomic_store_explicit(&ahead.begin[i], i < count ? (uintptr_t)areas[i].begin : 0, memory_order_relaxed);
        atomic_store_explicit(&ahead.bytes[i], i < count ? areas[i].bytes : 0, memory_order_relaxed);
    }
    atomic_fetch_add_explicit(&ahead.changes, 1, memory_order_release);
}

/* Prefetches a worker's part of what was announced since the last time, until it is called. Whether there was anything. */
static bool fetch_ahead(Worker *self, unsigned seen) {
    unsigned changes = atomic_load_explicit(&ahead.changes, memory_order_acquire);
    if (changes == self->fetched) {
        return false;
    }
    self->fetched = changes;
    int64_t thread = self - workers;
    int64_t threads = atomic_load_explicit(&wanted_threads, memory_order_relaxed);
    for (int i = 0; i < MAX_READ_AHEAD && thread < threads; i++) {
        uintptr_t begin = atomic_load_explicit(&ahead.begin[i], memory_order_relaxed);
        int64_t part = atomic_load_explicit(&ahead.bytes[i], memory_order_relaxed) / threads;
        int64_t end = part < MAX_READ_AHEAD_BYTES ? part : MAX_READ_AHEAD_BYTES;
        begin += (uintptr_t)(thread * part);
        for (int64_t at = 0; at < end; at += FETCHED_BYTES) {
            if (atomic_load_explicit(&self->calls, memory_order_relaxed) != seen) {
                return true;
            }
            for (int64_t line = at; line < at + FETCHED_BYTES; line += LINE) {
                __builtin_prefetch((const void *)(begin + (uintptr_t)line), 0, 2);
            }
        }
    }
    return true;
}

/* Spins until `changed` is true of the word; false if it gives up first. Short, because others may need the core;
 * long enough that consecutive loops need no system calls. A worker that waits for calls reads ahead meanwhile. */
static bool spin(atomic_uint *word, bool (*changed)(unsigned now, unsigned before), unsigned before, Worker *worker) {
    int64_t nanoseconds = atomic_load_explicit(&spin_nanoseconds, memory_order_relaxed);
    if (nanoseconds == 0) {
        return changed(atomic_load_explicit(word, memory_order_acquire), before);
    }
    int64_t until = ingot_now() + nanoseconds;
    do {
        if (worker != NULL && fetch_ahead(worker, before)) {
            until = ingot_now() + nanoseconds;
        }
        for (int i = 0; i < 64; i++) {
            if (changed(atomic_load_explicit(word, memory_order_acquire), before)) {
                return true;
            }
            relax();
        }
    } while (ingot_now() < until);
    return false;
}

static bool differs(unsigned value, unsigned before) {
    return value != before;
}

static bool nobody_inside(unsigned value, unsigned before) {
    (void)before;
    return (value & INSIDE) == 0;
}

/* ---- running chunks ---- */

static int64_t chunk_begin(int64_t chunk) {
    int64_t size = loop.count / loop.chunks, larger = loop.count % loop.chunks;
    return loop.begin + chunk * size + (chunk < larger ? chunk : larger);
}

static void work(int thread) {
    for (int i = 0; i < loop.threads; i++) {
        int owner = thread + i < loop.threads ? thread + i : thread + i - loop.threads;
        Run *run = &runs[owner];
        while (atomic_load_explicit(&run->next, memory_order_relaxed) < run->end) {
            int64_t chunk = atomic_fetch_add_explicit(&run->next, 1, memory_order_relaxed);
            if (chunk >= run->end) {
                break;
            }
            loop.body(loop.context, chunk_begin(chunk), chunk_begin(chunk + 1), thread);
        }
    }
}

static void join_loop(int thread) {
    unsigned state = atomic_load_explicit(&door, memory_order_relaxed);
    do {
        if ((state & OPEN) == 0) {
            return; /* all chunks were claimed before this thread arrived */
        }
    } while (!atomic_compare_exchange_weak_explicit(&door, &state, state + 1, memory_order_acquire, memory_order_relaxed));
    if (thread < loop.threads) {
        work(thread);
    }
    state = atomic_fetch_sub_explicit(&door, 1, memory_order_acq_rel) - 1;
    if ((state & INSIDE) == 0 && (state & CALLER_SLEEPS) != 0) {
        wake(&door);
    }
}

static void *worker_main(void *argument) {
    Worker *self = argument;
    int thread = (int)(self - workers);
    unsigned seen = 0;
    inside_loop = true; /* nested loops run on the worker alone */
    while (!atomic_load(&stopping)) {
        if (!spin(&self->calls, differs, seen, self)) {
            /* Order matters: the caller increments `calls` before it reads `sleeps`. */
            atomic_store(&self->sleeps, true);
            while (atomic_load(&self->calls) == seen) {
                sleep_while(&self->calls, seen);
            }
            atomic_store(&self->sleeps, false);
        }
        seen = atomic_load_explicit(&self->calls, memory_order_acquire);
        join_loop(thread);
    }
    return NULL;
}

/* ---- threads ---- */

#ifdef __linux__
/* Excludes the caller's current core from a worker's affinity. The scheduler tends to wake a thread on the core of
 * the thread that wakes it, and to run it first. If another core is idle, it uses that one; if none is, the caller
 * of a short loop would wait for its own core, ten times as long as the loop takes. */
static void leave_the_core(Worker *worker) {
    int core = sched_getcpu();
    cpu_set_t cores;
    if (core < 0 || core == worker->left_core || core >= CPU_SETSIZE || sched_getaffinity(0, sizeof cores, &cores) != 0)
        return;
    if (CPU_COUNT(&cores) > 1)
        CPU_CLR(core, &cores);
    pthread_setaffinity_np(worker->thread, sizeof cores, &cores);
    worker->left_core = core;
}
#else
static void leave_the_core(Worker *worker) {
    (void)worker;
}
#endif

static void call_worker(Worker *worker) {
    atomic_fetch_add(&worker->calls, 1);
    if (atomic_load(&worker->sleeps)) {
        leave_the_core(worker);
        wake(&worker->calls);
    }
}

/* Starts workers on demand. If the system refuses, there are fewer. */
static void start_workers(int threads) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all,
                    &before); /* inherited, so that workers block signals, which are for Python's main thread */
    while (started < threads) {
        Worker *worker = &workers[started];
        atomic_store(&worker->calls, 0);
        atomic_store(&worker->sleeps, false);
        worker->left_core = -1;
        if (pthread_create(&worker->thread, NULL, worker_main, worker) != 0) {
            break;
        }
        started++;
    }
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

static void after_fork_in_child(void) {
    started = 1; /* only the forking thread survives */
    atomic_store(&door, 0);
    atomic_store(&taken, false);
    inside_loop = false;
}

/* With more threads than cores, spinning is off: a thread that spins would take the core from one that has work. */
static void set_threads(int threads) {
    atomic_store(&spin_nanoseconds, threads > machine_cpus ? 0 : wanted_spin);
    atomic_store(&wanted_threads, threads);
}

static void start(void) {
    long threads, spin_microseconds = SPIN_MICROSECONDS;
    machine_cpus = ingot_machine_cpus();
    threads = machine_cpus < INGOT_MAXIMUM_THREADS ? machine_cpus : INGOT_MAXIMUM_THREADS;
    ingot_environment_number("INGOT_NUM_THREADS", 1, INGOT_MAXIMUM_THREADS, &threads);
    ingot_environment_number("INGOT_SPIN_MICROSECONDS", 0, 1000000, &spin_microseconds);
    wanted_spin = 1000 * spin_microseconds;
    set_threads((int)threads);
    pthread_atfork(NULL, NULL, after_fork_in_child);
}

int ingot_wanted_threads(void) {
    pthread_once(&once, start);
    return atomic_load_explicit(&wanted_threads, memory_order_relaxed);
}

int ingot_num_threads(void) {
    return pinned_threads > 0 ? pinned_threads : ingot_wanted_threads();
}

int ingot_pin_threads(int threads) {
    int before = pinned_threads;
    pinned_threads = threads;
    return before;
}

void ingot_set_num_threads(int threads) {
    pthread_once(&once, start);
    set_threads(threads);
}

/* Stops the workers before the process exits, so that none runs while memory is being released. */
void ingot_stop_pool(void) {
    bool free = false;
    if (!atomic_compare_exchange_strong(&taken, &free, true)) {
        return; /* a daemon thread is inside a loop: leave everything as it is */
    }
    atomic_store(&stopping, true);
    for (int i = 1; i < started; i++) {
        call_worker(&workers[i]);
    }
    for (int i = 1; i < started; i++) {
        pthread_join(workers[i].thread, NULL);
    }
    started = 1; /* `taken` stays set: later loops run on the calling thread */
}

/* ---- parallel loops ---- */

static void prepare_runs(void) {
    int64_t size = loop.chunks / loop.threads, larger = loop.chunks % loop.threads, begin = 0;
    for (int i = 0; i < loop.threads; i++) {
        runs[i].end = begin + size + (i < larger);
        atomic_store_explicit(&runs[i].next, begin, memory_order_relaxed);
        begin = runs[i].end;
    }
}

static void wait_until_all_left(void) {
    atomic_fetch_and(&door, ~OPEN);
    if (spin(&door, nobody_inside, 0, NULL)) {
        return;
    }
    unsigned state = atomic_fetch_or(&door, CALLER_SLEEPS) | CALLER_SLEEPS;
    while ((state & INSIDE) != 0) {
        sleep_while(&door, state);
        state = atomic_load_explicit(&door, memory_order_acquire);
    }
}

void ingot_parallel_range(ingot_loop_body body, void *context, int64_t begin, int64_t end, int64_t grain) {
    int64_t count = end - begin;
    if (count <= 0) {
        return;
    }
    int64_t max_chunks = count / (grain < 1 ? 1 : grain);
    int threads = ingot_num_threads();
    threads = max_chunks < threads ? (int)max_chunks : threads;
    bool free = false;
    if (threads <= 1 || inside_loop || !atomic_compare_exchange_strong(&taken, &free, true)) {
        body(context, begin, end, 0);
        return;
    }
    if (started < threads) {
        start_workers(threads);
        threads = started < threads ? started : threads;
    }
    int64_t chunks = (int64_t)threads * CHUNKS_PER_THREAD;
    loop.body = body;
    loop.context = context;
    loop.begin = begin;
    loop.count = count;
    loop.chunks = chunks < max_chunks ? chunks : max_chunks - max_chunks % threads; /* as many for each thread */
    loop.threads = threads;
    prepare_runs();
    atomic_store(&door, OPEN);
    for (int i = 1; i < threads; i++) {
        call_worker(&workers[i]);
    }
    inside_loop = true;
    work(0);
    inside_loop = false;
    wait_until_all_left();
    atomic_store(&taken, false);
}

void ingot_parallel_for(ingot_loop_body body, void *context, int64_t count, int64_t grain) {
    ingot_parallel_range(body, context, 0, count, grain);
}
