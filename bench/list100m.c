/* SPDX-License-Identifier: MIT */
/*
 * The 100M-pointer benchmark: a linked list of 100,000,000 8-byte blocks, built and freed in order,
 * three times over. It times the malloc that the process happens to have: run it under LD_PRELOAD.
 *
 * Uncontended, each round: build the list [timed], walk it and free every node [timed]; one thread.
 * Contended, each round: the main thread builds the list [timed]; a new thread walks and frees it
 * [timed inside that thread] while the main thread builds the next one. All threads are joined
 * after the last round, so up to three lists live at once.
 *
 * One list is `count` + 1 nodes: a head and then `count` times "link in a new node", in the order
 * in which they shall be freed: forward (append), reverse (prepend), or shuffled: append to a
 * random one of PILE_COUNT lists, which are joined to one at the end. A shuffled walk
 * hardly ever frees two neighbours in a row. The total runs from the first allocation to the last
 * free (the last join, when contended).
 *
 * The program checks itself: each walk counts its nodes, a wrong count ends it with status 1, and
 * so does a malloc that fails. Usage errors: status 2.
 */
#include "lib/floor.h"
#include "lib/workload.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>

enum { PILE_COUNT = 4096 };

struct node {
    struct node *next;
};

enum order { ORDER_FORWARD, ORDER_REVERSE, ORDER_SHUFFLED, ORDER_COUNT };
static const char *const order_names[] = {"forward", "reverse", "shuffled", NULL};
enum mode { MODE_UNCONTENDED, MODE_CONTENDED };
static const char *const mode_names[] = {"uncontended", "contended", NULL};

/* One list and its times. Written by the main thread; free_ns, nodes_freed by the freeing one. */
struct round {
    struct node *head;
    struct node *first; /* the first node that was made, and the last one */
    struct node *last;
    uint64_t alloc_ns;
    uint64_t free_ns;
    uint64_t alloc_cpu_ns; /* of the thread that did it */
    uint64_t free_cpu_ns;
    uint64_t nodes_freed;
    pthread_t thread;
    atomic_bool is_freed; /* stored last by the freeing thread: the list's memory is dead */
    bool is_reused;       /* main thread only: its memory was returned to the floor */
};

struct options {
    uint64_t count;
    uint64_t block_bytes;
    uint64_t rounds;
    uint64_t order; /* enum order */
    uint64_t mode;  /* enum mode */
};

static struct options settings = {
    .count = 100000000, .block_bytes = sizeof(struct node), .rounds = 3};

static const struct bench_option numbers[] = {
    {"count", &settings.count, 1, 1000000000000, "blocks appended to each list"},
    {"size", &settings.block_bytes, sizeof(struct node), 1u << 30, "bytes per block"},
    {"rounds", &settings.rounds, 1, BENCH_ROUND_LIMIT, "lists"},
    {0},
};

static const struct bench_choice choices[] = {
    {"mode", &settings.mode, mode_names, "whether another thread frees while the next is built"},
    {"order", &settings.order, order_names, "of freeing, against that of allocating"},
    {0},
};

static struct round rounds[BENCH_ROUND_LIMIT];
static typeof(floor_reuse) *reuse_hook; /* NULL under every real allocator */

__attribute__((noinline)) static void build_forward(struct round *round,
                                                    const struct options *options) {
    size_t bytes = options->block_bytes;
    struct node *head = bench_malloc(bytes);
    struct node *tail = head;
    for (uint64_t left = options->count; left != 0; left--) {
        struct node *node = bench_malloc(bytes);
        tail->next = node;
        tail = node;
    }
    tail->next = NULL;
    round->head = round->first = head;
    round->last = tail;
}

__attribute__((noinline)) static void build_reverse(struct round *round,
                                                    const struct options *options) {
    size_t bytes = options->block_bytes;
    struct node *head = bench_malloc(bytes);
    head->next = NULL;
    round->first = head;
    for (uint64_t left = options->count; left != 0; left--) {
        struct node *node = bench_malloc(bytes);
        node->next = head;
        head = node;
    }
    round->head = round->last = head;
}

__attribute__((noinline)) static void build_shuffled(struct round *round,
                                                     const struct options *options) {
    static struct node heads[PILE_COUNT]; /* only their `next` counts */
    static struct node *tails[PILE_COUNT];
    size_t bytes = options->block_bytes;
    uint32_t state = 1;
    for (size_t i = 0; i < PILE_COUNT; i++) {
        tails[i] = &heads[i];
    }
    struct node *node = round->first = bench_malloc(bytes);
    tails[0] = tails[0]->next = node;
    for (uint64_t left = options->count; left != 0; left--) {
        node = bench_malloc(bytes);
        state = state * 1664525u + 1013904223u; /* its upper bits are random enough */
        size_t pile = state >> 20;
        tails[pile] = tails[pile]->next = node;
    }
    round->last = node;
    struct node *rest = NULL;
    for (size_t i = PILE_COUNT; i-- != 0;) {
        tails[i]->next = rest; /* an empty pile's head points to the rest then */
        rest = heads[i].next;
    }
    round->head = rest;
}

__attribute__((noinline)) static uint64_t list_free(struct node *head) {
    uint64_t nodes = 0;
    for (struct node *node = head; node != NULL; nodes++) {
        struct node *next = node->next;
        free(node);
        node = next;
    }
    return nodes;
}

static void build_timed(struct round *round, const struct options *options) {
    static void (*const build[ORDER_COUNT])(struct round *, const struct options *) = {
        build_forward, build_reverse, build_shuffled};
    uint64_t start_cpu = bench_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t start = bench_now_ns();
    build[options->order](round, options);
    round->alloc_ns = bench_now_ns() - start;
    round->alloc_cpu_ns = bench_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start_cpu;
}

/* Thread body when contended, an ordinary call otherwise. */
static void *free_timed(void *argument) {
    struct round *round = argument;
    uint64_t start_cpu = bench_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
    uint64_t start = bench_now_ns();
    round->nodes_freed = list_free(round->head);
    round->free_ns = bench_now_ns() - start;
    round->free_cpu_ns = bench_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start_cpu;
    /* Pairs with reuse_a_dead_list; makes the end of the walk visible. */
    atomic_store_explicit(&round->is_freed, true, memory_order_release);
    return NULL;
}

/*
 * Only for the floor, whose free does nothing and which therefore would take fresh pages for ever:
 * give it the memory of one list that is dead, as any real malloc would by now have it back. Not
 * timed. The list must be one unbroken stretch of blocks: then no other block lives in it.
 */
static void reuse_a_dead_list(uint64_t rounds_begun, const struct options *options) {
    if (reuse_hook == NULL) {
        return;
    }
    for (uint64_t i = 0; i < rounds_begun; i++) {
        struct round *round = &rounds[i];
        /* Pairs with free_timed. */
        if (round->is_reused || !atomic_load_explicit(&round->is_freed, memory_order_acquire)) {
            continue;
        }
        uint64_t slab_bytes = (uint64_t)((char *)round->last - (char *)round->first);
        if (slab_bytes == options->count * options->block_bytes) {
            round->is_reused = true;
            reuse_hook(round->first, (char *)round->last + options->block_bytes);
            return;
        }
    }
}

static void run_uncontended(const struct options *options) {
    for (uint64_t i = 0; i < options->rounds; i++) {
        reuse_a_dead_list(i, options);
        build_timed(&rounds[i], options);
        free_timed(&rounds[i]);
    }
}

static void run_contended(const struct options *options) {
    for (uint64_t i = 0; i < options->rounds; i++) {
        reuse_a_dead_list(i, options);
        build_timed(&rounds[i], options);
        int error = pthread_create(&rounds[i].thread, NULL, free_timed, &rounds[i]);
        if (error != 0) {
            bench_fail("pthread_create: %s", strerror(error));
        }
    }
    for (uint64_t i = 0; i < options->rounds; i++) {
        pthread_join(rounds[i].thread, NULL);
    }
}

static void check_counts(const struct options *options) {
    for (uint64_t i = 0; i < options->rounds; i++) {
        if (rounds[i].nodes_freed != options->count + 1) {
            bench_fail("round %llu freed %llu nodes, built %llu", (unsigned long long)i + 1,
                       (unsigned long long)rounds[i].nodes_freed,
                       (unsigned long long)options->count + 1);
        }
    }
}

static void print_json(const struct options *options, uint64_t total_ns, uint64_t peak_kib) {
    printf("{\"benchmark\": \"list100m\", \"mode\": \"%s\", \"count\": %llu, "
           "\"nodes_per_round\": %llu, \"block_bytes\": %llu, \"order\": \"%s\", "
           "\"floor_reuse\": %s, \"rounds\": [",
           mode_names[options->mode], (unsigned long long)options->count,
           (unsigned long long)options->count + 1, (unsigned long long)options->block_bytes,
           order_names[options->order], reuse_hook != NULL ? "true" : "false");
    for (uint64_t i = 0; i < options->rounds; i++) {
        const struct round *round = &rounds[i];
        printf("%s{\"alloc_ms\": %.4f, \"alloc_mops\": %.3f, \"free_ms\": %.4f, "
               "\"free_mops\": %.3f, \"alloc_cpu_ms\": %.4f, \"free_cpu_ms\": %.4f, "
               "\"nodes_freed\": %llu, \"reused\": %s}",
               i == 0 ? "" : ", ", bench_ms(round->alloc_ns),
               bench_mops(options->count + 1, round->alloc_ns), bench_ms(round->free_ns),
               bench_mops(options->count + 1, round->free_ns), bench_ms(round->alloc_cpu_ns),
               bench_ms(round->free_cpu_ns), (unsigned long long)round->nodes_freed,
               round->is_reused ? "true" : "false");
    }
    printf("], \"total_ms\": %.4f, \"peak_rss_kib\": %llu}\n", bench_ms(total_ns),
           (unsigned long long)peak_kib);
}

static void print_lines(const struct options *options, uint64_t total_ns, uint64_t peak_kib) {
    printf("%s, %llu + 1 blocks of %llu bytes, %s\n", mode_names[options->mode],
           (unsigned long long)options->count, (unsigned long long)options->block_bytes,
           order_names[options->order]);
    for (uint64_t i = 0; i < options->rounds; i++) {
        const struct round *round = &rounds[i];
        printf("round %llu: alloc %9.1f ms (%6.1f M/s)   free %9.1f ms (%6.1f M/s)\n",
               (unsigned long long)i + 1, bench_ms(round->alloc_ns),
               bench_mops(options->count + 1, round->alloc_ns), bench_ms(round->free_ns),
               bench_mops(options->count + 1, round->free_ns));
    }
    printf("total: %.1f ms, peak RSS %.1f MiB\n", bench_ms(total_ns), (double)peak_kib / 1024);
}

int main(int argc, char **argv) {
    const struct options *options = &settings;
    bench_parse_with("list100m", "Builds a linked list and frees it in order, some rounds of that.",
                     numbers, choices, argc, argv);
    reuse_hook = (typeof(floor_reuse) *)dlsym(RTLD_DEFAULT, "floor_reuse");

    uint64_t start = bench_now_ns();
    if (options->mode == MODE_CONTENDED) {
        run_contended(options);
    } else {
        run_uncontended(options);
    }
    uint64_t total_ns = bench_now_ns() - start;

    check_counts(options);
    uint64_t peak_kib = bench_peak_rss_kib();
    if (bench_is_json) {
        print_json(options, total_ns, peak_kib);
    } else {
        print_lines(options, total_ns, peak_kib);
    }
    return 0;
}
