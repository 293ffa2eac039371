/* The nearest rows of a database, found in one pass over it.
 *
 * Rows are processed in cache-sized tiles and multiplied with a block of queries (near_products.c). The products and
 * the norms of the rows give approximate distances. Only a row that, within the bound on rounding errors, may be
 * nearer than the farthest candidate so far has its distance computed directly from the components. Results use the
 * direct distances only, so they are exact and do not depend on how the work was divided. For few queries, and for
 * metrics that are not products, all distances are computed directly. */
#include "search/top_k.h"

#include <float.h>
#include <math.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "memory/allocator.h"
#include "search/candidates.h"
#include "threads/interrupt.h"
#include "search/near_products.h"
#include "threads/pool.h"

enum {
    MAX_QUERIES = 144,         /* maximum in a block */
    MIN_QUERIES = 8,           /* minimum for a matrix product to pay off */
    MAX_ROWS = 480,            /* maximum in a tile */
    MIN_ROWS = 16,             /* minimum in a tile, unless there are fewer */
    PRODUCT_BLOCK = 1 << 19,   /* bytes of a block of queries for matrix products */
    PRODUCT_TILE = 1 << 18,    /* bytes of a tile for matrix products */
    DIRECT_TILE = 32 << 10,    /* bytes of a tile for direct distances */
    ALL_CANDIDATES = 24 << 20, /* approximate bytes for the candidates of all workers */
    WORTH_A_WORKER = 1 << 17,  /* components to compare that justify another worker */
};

/* ---- comparing rows with queries ---- */

/* Per-thread state. */
typedef struct {
    Candidates *candidates; /* one list per query of a block */
    /* For matrix products: */
    float *panels;          /* the queries of a block, packed as in near_products.h */
    float *limits;          /* on the products, one per query */
    float *factors, *terms; /* one per row of a tile */
    ingot_hit *hits;
    /* For direct distances: */
    float *keys; /* (queries, rows of a tile) */
    int32_t *indices;
} Worker;

typedef struct {
    const ingot_search *search;
    const float *query_squares;
    double error; /* bound on the rounding errors of both kinds of distance, relative to the norms of the vectors */
    int64_t tile; /* rows */
    bool by_products;
} Scan;

/* An upper bound on the product-based value of any row whose direct distance is within `limit`. */
static float limit_of_products(const Scan *scan, int64_t query, float limit, double largest_row) {
    double square = scan->query_squares[query], length = sqrt(square), found;
    switch (scan->search->metric) {
    case METRIC_L2: /* |query|^2 - 2 product + |row|^2 <= limit, halved */
        found = (limit - square + scan->error * (length + largest_row) * (length + largest_row)) / 2;
        break;
    case METRIC_COSINE: /* -product / (|query| |row|) <= limit */
        found = (limit + scan->error) * length;
        break;
    default: /* -product <= limit */
        found = limit + scan->error * length * largest_row;
    }
    return nextafterf((float)(found + FLT_MIN), INFINITY); /* products below FLT_MIN lose precision */
}

/* Fills in the factor and term of each row. Returns the norm of the longest row. */
static double measure_rows(const ingot_search *search, Worker *worker, const float *rows, int64_t row_count) {
    float largest = 0;
    float *squares = worker->terms;
    ingot_squares(rows, row_count, search->d, squares);
    for (int64_t i = 0; i < row_count; i++) {
        float square = squares[i];
        largest = square > largest || square != square ? square : largest;
        worker->factors[i] = search->metric != METRIC_COSINE ? 1 : square > 0 ? 1 / sqrtf(square) : 0;
        worker->terms[i] = search->metric == METRIC_L2 ? square / 2 : 0;
    }
    return sqrt(largest);
}

static void scan_by_products(const Scan *scan, Worker *worker, int64_t query, int64_t query_count, int64_t row,
                             int64_t row_count) {
    const ingot_search *search = scan->search;
    const float *rows = search->rows + row * search->d, *queries = search->queries + query * search->d;
    int64_t d = search->d, width = ingot_panel_width();
    double largest = measure_rows(search, worker, rows, row_count);
    for (int64_t q = 0; q < query_count; q++)
        worker->limits[q] = limit_of_products(scan, query + q, worker->candidates[q].limit, largest);
    for (int64_t begin = 0; begin < query_count; begin += width) {
        const float *panel = worker->panels + begin * d;
        float *limits = worker->limits + begin;
        int64_t together = smaller(width, query_count - begin);
        for (int64_t step = 0; step < row_count; step += INGOT_ROW_STEP) {
            int64_t found =
                ingot_near_products(panel, together, limits, rows + step * d, smaller(INGOT_ROW_STEP, row_count - step), d,
                                    worker->factors + step, worker->terms + step, worker->hits);
            for (int64_t i = 0; i < found; i++) {
                ingot_hit hit = worker->hits[i];
                if (hit.value > limits[hit.query]) /* the limit may have dropped since */
                    continue;
                float key;
                int64_t q = begin + hit.query, index = step + hit.row;
                Candidates *candidates = &worker->candidates[q];
                float limit = candidates->limit;
                ingot_keys(search->metric, queries + q * d, 1, rows + index * d, 1, d, &key, 1);
                add_candidate(candidates, key, row + index);
                if (candidates->limit != limit)
                    limits[hit.query] = limit_of_products(scan, query + q, candidates->limit, largest);
            }
        }
    }
}

static void scan_directly(const Scan *scan, Worker *worker, int64_t query, int64_t query_count, int64_t row,
                          int64_t row_count) {
    const ingot_search *search = scan->search;
    ingot_keys(search->metric, search->queries + query * search->d, query_count, search->rows + row * search->d, row_count,
               search->d, worker->keys, row_count);
    for (int64_t q = 0; q < query_count; q++) {
        const float *keys = worker->keys + q * row_count;
        Candidates *candidates = &worker->candidates[q];
        int64_t found = ingot_not_more(keys, NULL, NULL, row_count, candidates->limit, worker->indices);
        for (int64_t i = 0; i < found; i++)
            add_candidate(candidates, keys[worker->indices[i]], row + worker->indices[i]);
    }
}

static void scan_rows(const Scan *scan, Worker *worker, int64_t query, int64_t query_count, int64_t row, int64_t row_count) {
    if (scan->by_products)
        scan_by_products(scan, worker, query, query_count, row, row_count);
    else
        scan_directly(scan, worker, query, query_count, row, row_count);
}

/* ---- dividing the work ---- */

typedef struct {
    Scan scan;
    Worker *workers;
    int64_t worker_count, block; /* queries in a block */
    int64_t wanted, room;        /* of each list of candidates */
    float limit;                 /* initial limit of each list */
    int64_t query, query_count;  /* the block whose rows are shared among threads */
    atomic_llong next;           /* the next block or tile to be claimed */
    /* Destination of the results: either the first two or the others. */
    float *distances;
    int64_t *positions;
    ingot_candidate **found;
    int64_t *counts;
    atomic_bool short_of_memory;
    atomic_bool stopped; /* a signal arrived */
} Job;

static int by_row(const void *a, const void *b) {
    return ((const ingot_candidate *)a)->row < ((const ingot_candidate *)b)->row ? -1 : 1;
}

static void start_block(const Job *job, Worker *worker, int64_t query, int64_t query_count) {
    const ingot_search *search = job->scan.search;
    if (job->scan.by_products)
        ingot_lay_out_queries(search->queries + query * search->d, query_count, search->d, worker->panels);
    for (int64_t q = 0; q < query_count; q++) {
        worker->candidates[q].count = 0;
        worker->candidates[q].limit = job->limit;
    }
}

/* Writes the results of a query, or hands over the list itself if it is one that grows. */
static void finish_list(Job *job, Candidates *list, int64_t query) {
    if (job->wanted == 0) {
        if (list->room < 0)
            atomic_store(&job->short_of_memory, true);
        if (list->count > 0)
            qsort(list->items, (size_t)list->count, sizeof *list->items, by_row);
        job->found[query] = list->items;
        job->counts[query] = list->count;
        *list = (Candidates){.limit = job->limit};
        return;
    }
    int64_t count = sort_candidates(list);
    bool negated = job->scan.search->metric == METRIC_INNER_PRODUCT || job->scan.search->metric == METRIC_COSINE;
    float *distances = job->distances + query * job->wanted;
    int64_t *positions = job->positions + query * job->wanted;
    for (int64_t i = 0; i < job->wanted; i++) {
        float key = i < count ? list->items[i].key : INFINITY;
        distances[i] = negated ? 0 - key : key; /* not -0 */
        positions[i] = i < count ? list->items[i].row : -1;
    }
}

/* Claims blocks of queries and compares each with all rows. */
static void work_on_blocks(void *context, int64_t begin, int64_t end, int thread) {
    Job *job = context;
    const ingot_search *search = job->scan.search;
    for (int64_t w = begin; w < end; w++) {
        Worker *worker = &job->workers[w];
        int64_t query;
        while ((query = atomic_fetch_add(&job->next, 1) * job->block) < search->query_count) {
            int64_t count = smaller(job->block, search->query_count - query);
            start_block(job, worker, query, count);
            for (int64_t row = 0; row < search->row_count; row += job->scan.tile) {
                if (ingot_is_stopped(&job->stopped, thread))
                    return;
                scan_rows(&job->scan, worker, query, count, row, smaller(job->scan.tile, search->row_count - row));
            }
            for (int64_t q = 0; q < count; q++)
                finish_list(job, &worker->candidates[q], query + q);
        }
    }
}

/* Claims tiles of rows and compares each with one block of queries. */
static void work_on_tiles(void *context, int64_t begin, int64_t end, int thread) {
    Job *job = context;
    int64_t row, row_count = job->scan.search->row_count;
    for (int64_t w = begin; w < end; w++) {
        start_block(job, &job->workers[w], job->query, job->query_count);
        while ((row = atomic_fetch_add(&job->next, 1) * job->scan.tile) < row_count && !ingot_is_stopped(&job->stopped, thread))
            scan_rows(&job->scan, &job->workers[w], job->query, job->query_count, row,
                      smaller(job->scan.tile, row_count - row));
    }
}

/* Merges the lists of all workers for some queries of the block. */
static void join_lists(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    Job *job = context;
    for (int64_t q = begin; q < end; q++) {
        Candidates *list = &job->workers[0].candidates[q];
        for (int64_t w = 1; w < job->worker_count; w++) {
            Candidates *other = &job->workers[w].candidates[q];
            if (other->room < 0)
                list->room = -1;
            for (int64_t i = 0; i < other->count; i++)
                add_candidate(list, other->items[i].key, other->items[i].row);
        }
        finish_list(job, list, job->query + q);
    }
}

static void run(Job *job) {
    const ingot_search *search = job->scan.search;
    int64_t workers = job->worker_count, blocks = (search->query_count + job->block - 1) / job->block;
    if (workers == 1 || blocks >= 2 * workers) {
        atomic_store(&job->next, 0);
        ingot_parallel_for(work_on_blocks, job, workers, 1);
        return;
    }
    for (job->query = 0; job->query < search->query_count && !atomic_load(&job->stopped); job->query += job->block) {
        job->query_count = smaller(job->block, search->query_count - job->query);
        atomic_store(&job->next, 0);
        ingot_parallel_for(work_on_tiles, job, workers, 1);
        ingot_parallel_for(join_lists, job, job->query_count, 8);
    }
}

/* ---- memory and sizes ---- */

static void choose_sizes(Job *job) {
    const ingot_search *search = job->scan.search;
    job->room = room_for(job->wanted, search->row_count);
    int64_t bytes = larger(1, job->wanted == 0 ? 1 : job->room) * (int64_t)sizeof(ingot_candidate);
    double work = (double)search->query_count * (double)search->row_count * (double)larger(search->d, 1);
    int64_t worth = (int64_t)fmin(work / WORTH_A_WORKER, ingot_num_threads());
    job->worker_count = larger(1, smaller(worth, ALL_CANDIDATES / bytes));
    int64_t fitting = larger(1, ALL_CANDIDATES / (bytes * job->worker_count));
    int64_t laid_out = larger(ingot_panel_width(), PRODUCT_BLOCK / (larger(1, search->d) * (int64_t)sizeof(float)));
    int64_t most = smaller(MAX_QUERIES, larger(MIN_QUERIES, laid_out));
    job->block = larger(1, smaller(smaller(most, search->query_count), fitting));
    bool is_product = search->metric != METRIC_L1 && search->metric != METRIC_LINF;
    job->scan.by_products = is_product && search->d > 0 && job->block >= MIN_QUERIES;
    int64_t tile_bytes = job->scan.by_products ? PRODUCT_TILE : DIRECT_TILE;
    int64_t rows = tile_bytes / (larger(1, search->d) * (int64_t)sizeof(float));
    job->scan.tile = larger(1, smaller(search->row_count, larger(MIN_ROWS, smaller(rows, MAX_ROWS))));
    /* Each of about d + 8 roundings is off by at most half an ulp; cosines add the errors of the norms. */
    job->scan.error = (search->metric == METRIC_COSINE ? 4 : 2) * 1.01 * (double)(search->d + 8) * FLT_EPSILON / 2;
}

/* Bytes of the arrays of one worker; those of the other kind of comparison are 0. */
typedef struct {
    size_t candidates, items;
    size_t panels, limits, row, hits; /* for matrix products */
    size_t keys, indices;             /* for direct distances */
} WorkerBytes;

static WorkerBytes worker_bytes(const Job *job) {
    size_t block = (size_t)job->block, tile = (size_t)job->scan.tile;
    WorkerBytes bytes = {.candidates = block * sizeof(Candidates)};
    if (job->wanted > 0)
        bytes.items = block * (size_t)job->room * sizeof(ingot_candidate);
    if (job->scan.by_products) {
        size_t queries = (size_t)ingot_padded_queries(job->block);
        bytes.panels = queries * (size_t)job->scan.search->d * sizeof(float);
        bytes.limits = queries * sizeof(float);
        bytes.row = tile * sizeof(float);
        bytes.hits = ((size_t)ingot_panel_width() * INGOT_ROW_STEP + 1) * sizeof(ingot_hit);
    } else {
        bytes.keys = block * tile * sizeof(float);
        bytes.indices = tile * sizeof(int32_t);
    }
    return bytes;
}

static size_t total_bytes(const WorkerBytes *bytes) {
    return padded(bytes->candidates) + padded(bytes->items) + padded(bytes->panels) + padded(bytes->limits) +
           2 * padded(bytes->row) + padded(bytes->hits) + padded(bytes->keys) + padded(bytes->indices);
}

/* Gives a worker its arrays, cut from memory. */
static void set_up(const Job *job, Worker *worker, const WorkerBytes *bytes, char **memory) {
    worker->candidates = cut(memory, bytes->candidates);
    ingot_candidate *lists = cut(memory, bytes->items);
    for (int64_t q = 0; q < job->block; q++)
        worker->candidates[q] = (Candidates){
            .items = job->wanted == 0 ? NULL : lists + q * job->room,
            .room = job->wanted == 0 ? 0 : job->room,
            .wanted = job->wanted,
        };
    worker->panels = cut(memory, bytes->panels);
    worker->limits = cut(memory, bytes->limits);
    memset(worker->limits, 0, bytes->limits);
    worker->factors = cut(memory, bytes->row);
    worker->terms = cut(memory, bytes->row);
    worker->hits = cut(memory, bytes->hits);
    worker->keys = cut(memory, bytes->keys);
    worker->indices = cut(memory, bytes->indices);
}

static bool work(Job *job) {
    const ingot_search *search = job->scan.search;
    choose_sizes(job);
    WorkerBytes bytes = worker_bytes(job);
    size_t squares = (size_t)search->query_count * sizeof(float), workers = (size_t)job->worker_count * sizeof(Worker);
    size_t size = padded(squares) + padded(workers) + (size_t)job->worker_count * total_bytes(&bytes);
    char *memory = ingot_allocate(size), *rest = memory;
    if (memory == NULL)
        return false;
    float *query_squares = cut(&rest, squares);
    if (job->scan.by_products)
        ingot_squares(search->queries, search->query_count, search->d, query_squares);
    job->scan.query_squares = query_squares;
    job->workers = cut(&rest, workers);
    for (int64_t w = 0; w < job->worker_count; w++)
        set_up(job, &job->workers[w], &bytes, &rest);
    run(job);
    for (int64_t w = 0; w < job->worker_count && job->wanted == 0; w++) {
        for (int64_t q = 0; q < job->block; q++)
            free(job->workers[w].candidates[q].items);
    }
    ingot_release(memory, size);
    return !atomic_load(&job->short_of_memory) && !atomic_load(&job->stopped);
}

bool ingot_nearest(const ingot_search *search, int64_t k, float *distances, int64_t *positions) {
    Job job = {.scan = {.search = search}, .wanted = k, .limit = FLT_MAX, .distances = distances, .positions = positions};
    atomic_init(&job.next, 0);
    atomic_init(&job.short_of_memory, false);
    atomic_init(&job.stopped, false);
    return work(&job);
}

bool ingot_within(const ingot_search *search, float radius, ingot_candidate **found, int64_t *counts) {
    bool negated = search->metric == METRIC_INNER_PRODUCT || search->metric == METRIC_COSINE;
    float limit = nextafterf(negated ? -radius : radius, -INFINITY);
    Job job = {.scan = {.search = search}, .limit = limit > FLT_MAX ? FLT_MAX : limit, .found = found, .counts = counts};
    atomic_init(&job.next, 0);
    atomic_init(&job.short_of_memory, false);
    atomic_init(&job.stopped, false);
    return work(&job);
}
