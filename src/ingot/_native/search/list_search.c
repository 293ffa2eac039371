/* Search in inverted lists: for each query, computes the keys of the rows in the lists it probes from their codes, a
 * block of rows at a time, and compares them with the limit of the candidates so far.
 *
 * Threads share many queries among them, or the rows of each query if there are few. */
#include "search/list_search.h"

#include <math.h>
#include <stdatomic.h>

#include "memory/allocator.h"
#include "search/candidates.h"
#include "threads/interrupt.h"
#include "threads/pool.h"

enum {
    ROWS_AT_ONCE = 256,        /* rows whose keys are buffered */
    CHUNK = 16 * ROWS_AT_ONCE, /* rows of a list that a thread claims at a time */
    WORTH_A_THREAD = 1 << 17,  /* bytes of codes that justify another thread */
    ALL_CANDIDATES = 24 << 20, /* approximate bytes for the candidates of all workers */
    PROBE_SHIFT = 40,          /* a candidate is numbered by its probe (high bits) and its index in the list */
};

/* Per-thread state. */
typedef struct {
    Candidates candidates;
    float *prepared;
    const float *prepared_query; /* the query that `prepared` is for */
    int64_t prepared_list;
    float keys[ROWS_AT_ONCE];
    int32_t indices[ROWS_AT_ONCE];
} Worker;

typedef struct {
    const ingot_list_search *search;
    Worker *workers;
    int64_t worker_count;
    int64_t query;       /* whose rows are shared among threads */
    atomic_llong next;   /* the next query or chunk to be claimed */
    atomic_bool stopped; /* a signal arrived */
    float *distances;
    int64_t *positions;
} Job;

static int64_t list_of(const ingot_list_search *search, int64_t query, int64_t probe) {
    return search->probes[query * search->probe_count + probe];
}

static int64_t length_of(const ingot_list_search *search, int64_t list) {
    return list < 0 ? 0 : search->limits[list + 1] - search->limits[list];
}

static void scan(const ingot_list_search *search, Worker *worker, int64_t query, int64_t probe, int64_t begin, int64_t end) {
    const ingot_codes *codes = &search->codes;
    const float *x = search->queries + query * codes->d;
    int64_t list = list_of(search, query, probe);
    if (worker->prepared_query != x || worker->prepared_list != list) {
        const float *centroid = search->centroids == NULL ? NULL : search->centroids + list * codes->d;
        ingot_prepare_codes(codes, x, centroid, worker->prepared);
        worker->prepared_query = x;
        worker->prepared_list = list;
    }
    const char *rows = search->rows + search->limits[list] * codes->code_bytes;
    const char *behind = search->rows + search->limits[search->list_count] * codes->code_bytes;
    for (int64_t row = begin; row < end; row += ROWS_AT_ONCE) {
        int64_t count = smaller(ROWS_AT_ONCE, end - row);
        ingot_coded_keys(codes, x, worker->prepared, rows + row * codes->code_bytes, count, behind, worker->keys);
        int64_t found = ingot_not_more(worker->keys, NULL, NULL, count, worker->candidates.limit, worker->indices);
        for (int64_t i = 0; i < found; i++) {
            int32_t index = worker->indices[i];
            add_candidate(&worker->candidates, worker->keys[index], (probe << PROBE_SHIFT) + row + index);
        }
    }
}

static void start(Worker *worker) {
    worker->candidates.count = 0;
    worker->candidates.limit = FLT_MAX;
}

static void finish(const Job *job, Candidates *list, int64_t query) {
    const ingot_list_search *search = job->search;
    int64_t count = sort_candidates(list), wanted = list->wanted;
    float *distances = job->distances + query * wanted;
    int64_t *positions = job->positions + query * wanted;
    bool negated = search->codes.metric != METRIC_L2;
    for (int64_t i = 0; i < wanted; i++) {
        float key = i < count ? list->items[i].key : INFINITY;
        distances[i] = negated ? 0 - key : key; /* not -0 */
        positions[i] = -1;
        if (i < count) {
            int64_t row = list->items[i].row, begin = search->limits[list_of(search, query, row >> PROBE_SHIFT)];
            positions[i] = begin + (row & (((int64_t)1 << PROBE_SHIFT) - 1));
        }
    }
}

/* Claims queries and scans all rows of each. */
static void work_on_queries(void *context, int64_t first_worker, int64_t last_worker, int thread) {
    Job *job = context;
    const ingot_list_search *search = job->search;
    for (int64_t w = first_worker; w < last_worker; w++) {
        Worker *worker = &job->workers[w];
        int64_t query;
        while ((query = atomic_fetch_add(&job->next, 1)) < search->query_count) {
            start(worker);
            for (int64_t probe = 0; probe < search->probe_count; probe++) {
                int64_t length = length_of(search, list_of(search, query, probe));
                for (int64_t begin = 0; begin < length; begin += CHUNK) {
                    if (ingot_is_stopped(&job->stopped, thread))
                        return;
                    scan(search, worker, query, probe, begin, smaller(length, begin + CHUNK));
                }
            }
            finish(job, &worker->candidates, query);
        }
    }
}

/* Claims chunks of the lists that one query probes. */
static void work_on_chunks(void *context, int64_t first_worker, int64_t last_worker, int thread) {
    Job *job = context;
    const ingot_list_search *search = job->search;
    for (int64_t w = first_worker; w < last_worker; w++) {
        Worker *worker = &job->workers[w];
        start(worker);
        int64_t taken = atomic_fetch_add(&job->next, 1), before_list = 0;
        for (int64_t probe = 0; probe < search->probe_count; probe++) {
            int64_t length = length_of(search, list_of(search, job->query, probe)), chunks = (length + CHUNK - 1) / CHUNK;
            for (; taken < before_list + chunks; taken = atomic_fetch_add(&job->next, 1)) {
                int64_t begin = (taken - before_list) * CHUNK;
                if (ingot_is_stopped(&job->stopped, thread))
                    return;
                scan(search, worker, job->query, probe, begin, smaller(length, begin + CHUNK));
            }
            before_list += chunks;
        }
    }
}

static void run(Job *job) {
    int64_t workers = job->worker_count, queries = job->search->query_count;
    atomic_store(&job->next, 0);
    if (workers == 1 || queries >= 2 * workers) {
        ingot_parallel_for(work_on_queries, job, workers, 1);
        return;
    }
    for (job->query = 0; job->query < queries && !atomic_load(&job->stopped); job->query++) {
        atomic_store(&job->next, 0);
        ingot_parallel_for(work_on_chunks, job, workers, 1);
        Candidates *list = &job->workers[0].candidates;
        for (int64_t w = 1; w < workers; w++) {
            const Candidates *other = &job->workers[w].candidates;
            for (int64_t i = 0; i < other->count; i++)
                add_candidate(list, other->items[i].key, other->items[i].row);
        }
        finish(job, list, job->query);
    }
}

static int64_t rows_to_scan(const ingot_list_search *search) {
    int64_t rows = 0;
    for (int64_t i = 0; i < search->query_count * search->probe_count; i++)
        rows += length_of(search, search->probes[i]);
    return rows;
}

bool ingot_nearest_in_lists(const ingot_list_search *search, int64_t k, float *distances, int64_t *positions) {
    Job job = {.search = search, .distances = distances, .positions = positions};
    int64_t room = room_for(k, search->limits[search->list_count]);
    int64_t bytes = room * (int64_t)sizeof(ingot_candidate);
    double work = (double)rows_to_scan(search) * (double)search->codes.code_bytes;
    int64_t worth = (int64_t)fmin(work / WORTH_A_THREAD, ingot_num_threads());
    job.worker_count = larger(1, smaller(worth, ALL_CANDIDATES / bytes));
    size_t prepared = (size_t)ingot_prepared_bytes(&search->codes), workers = (size_t)job.worker_count;
    size_t size = padded(workers * sizeof(Worker)) + workers * (padded((size_t)bytes) + padded(prepared));
    char *memory = ingot_allocate(size), *rest = memory;
    if (memory == NULL)
        return false;
    job.workers = cut(&rest, workers * sizeof(Worker));
    for (size_t w = 0; w < workers; w++) {
        Worker *worker = &job.workers[w];
        worker->candidates = (Candidates){.items = cut(&rest, (size_t)bytes), .room = room, .wanted = k};
        worker->prepared = cut(&rest, prepared);
        worker->prepared_query = NULL;
        worker->prepared_list = -1;
    }
    atomic_init(&job.stopped, false);
    run(&job);
    ingot_release(memory, size);
    return !atomic_load(&job.stopped);
}
