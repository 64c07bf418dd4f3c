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
 * random one of PILE_COUNT lists, which lie one behind the other at the end. A shuffled walk
 * hardly ever frees two neighbours in a row. The total runs from the first allocation to the last
 * free (the last join, when contended).
 *
 * The program checks itself: each walk counts its nodes, a wrong count ends it with status 1, and
 * so does a malloc that fails. Usage errors: status 2.
 */
#include "lib/bench.h"
#include "lib/floor.h"

#include <dlfcn.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

enum { ROUND_LIMIT = 64, PILE_COUNT = 4096 };

struct node {
    struct node *next;
};

enum order { ORDER_FORWARD, ORDER_REVERSE, ORDER_SHUFFLED, ORDER_COUNT };
static const char *const order_names[ORDER_COUNT] = {"forward", "reverse", "shuffled"};

/* One list and its times. Written by the main thread; free_ns, nodes_freed by whoever frees it. */
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
    bool is_reused;       /* main thread only: its memory was handed back to the floor */
};

struct options {
    uint64_t count;
    uint64_t block_bytes;
    uint64_t rounds;
    enum order order;
    bool is_contended;
    bool is_json;
};

static struct round rounds[ROUND_LIMIT];
static typeof(floor_reuse) *reuse_hook; /* NULL under every real allocator */

/*
 * A plain call of malloc. The empty asm makes the result opaque: without it a compiler may prove
 * that nobody looks at the memory and drop the pair of malloc and free.
 */
static inline struct node *node_new(size_t bytes) {
    struct node *node = malloc(bytes);
    __asm__ volatile("" : "+r"(node));
    if (__builtin_expect(node == NULL, 0)) {
        fprintf(stderr, "list100m: malloc(%zu) failed\n", bytes);
        exit(BENCH_EXIT_WRONG);
    }
    return node;
}

__attribute__((noinline)) static void build_forward(struct round *round,
                                                    const struct options *options) {
    size_t bytes = options->block_bytes;
    struct node *head = node_new(bytes);
    struct node *tail = head;
    for (uint64_t left = options->count; left != 0; left--) {
        struct node *node = node_new(bytes);
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
    struct node *head = node_new(bytes);
    head->next = NULL;
    round->first = head;
    for (uint64_t left = options->count; left != 0; left--) {
        struct node *node = node_new(bytes);
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
    struct node *node = round->first = node_new(bytes);
    tails[0] = tails[0]->next = node;
    for (uint64_t left = options->count; left != 0; left--) {
        node = node_new(bytes);
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
        uint64_t span_bytes = (uint64_t)((char *)round->last - (char *)round->first);
        if (span_bytes == options->count * options->block_bytes) {
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
            fprintf(stderr, "list100m: pthread_create: %s\n", strerror(error));
            exit(BENCH_EXIT_WRONG);
        }
    }
    for (uint64_t i = 0; i < options->rounds; i++) {
        pthread_join(rounds[i].thread, NULL);
    }
}

static void check_counts(const struct options *options) {
    for (uint64_t i = 0; i < options->rounds; i++) {
        if (rounds[i].nodes_freed != options->count + 1) {
            fprintf(stderr, "list100m: round %llu freed %llu nodes, built %llu\n",
                    (unsigned long long)i + 1, (unsigned long long)rounds[i].nodes_freed,
                    (unsigned long long)options->count + 1);
            exit(BENCH_EXIT_WRONG);
        }
    }
}

static void print_json(const struct options *options, uint64_t total_ns, uint64_t peak_kib) {
    printf("{\"benchmark\": \"list100m\", \"mode\": \"%s\", \"count\": %llu, "
           "\"nodes_per_round\": %llu, \"block_bytes\": %llu, \"order\": \"%s\", "
           "\"floor_reuse\": %s, \"rounds\": [",
           options->is_contended ? "contended" : "uncontended", (unsigned long long)options->count,
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
    printf("%s, %llu + 1 blocks of %llu bytes, %s\n",
           options->is_contended ? "contended" : "uncontended", (unsigned long long)options->count,
           (unsigned long long)options->block_bytes, order_names[options->order]);
    for (uint64_t i = 0; i < options->rounds; i++) {
        const struct round *round = &rounds[i];
        printf("round %llu: alloc %9.1f ms (%6.1f M/s)   free %9.1f ms (%6.1f M/s)\n",
               (unsigned long long)i + 1, bench_ms(round->alloc_ns),
               bench_mops(options->count + 1, round->alloc_ns), bench_ms(round->free_ns),
               bench_mops(options->count + 1, round->free_ns));
    }
    printf("total: %.1f ms, peak RSS %.1f MiB\n", bench_ms(total_ns), (double)peak_kib / 1024);
}

static void print_help(void) {
    puts("usage: list100m [--mode uncontended|contended] [--count N] [--size BYTES] [--rounds N]\n"
         "                [--order forward|reverse|shuffled] [--json]\n"
         "\n"
         "Builds a linked list of N + 1 blocks and frees it in order, some rounds of that.\n"
         "  --mode    contended: another thread frees each list while the next is built\n"
         "  --count   blocks appended to each list (100000000)\n"
         "  --size    bytes per block, 8 or more (8)\n"
         "  --rounds  lists, 1 to 64 (3)\n"
         "  --order   of freeing, against that of allocating (forward)\n"
         "  --json    one JSON object instead of lines");
}

static enum order parse_order(const char *text) {
    for (enum order order = 0; order < ORDER_COUNT; order++) {
        if (strcmp(text, order_names[order]) == 0) {
            return order;
        }
    }
    fprintf(stderr, "--order: \"%s\" is none of forward, reverse, shuffled\n", text);
    exit(BENCH_EXIT_USAGE);
}

static struct options parse_options(int argc, char **argv) {
    enum {
        OPTION_MODE,
        OPTION_COUNT,
        OPTION_SIZE,
        OPTION_ROUNDS,
        OPTION_ORDER,
        OPTION_JSON,
        OPTION_HELP
    };
    static const struct option table[] = {
        {"mode", required_argument, NULL, OPTION_MODE},
        {"count", required_argument, NULL, OPTION_COUNT},
        {"size", required_argument, NULL, OPTION_SIZE},
        {"rounds", required_argument, NULL, OPTION_ROUNDS},
        {"order", required_argument, NULL, OPTION_ORDER},
        {"json", no_argument, NULL, OPTION_JSON},
        {"help", no_argument, NULL, OPTION_HELP},
        {0},
    };
    struct options options = {.count = 100000000, .block_bytes = sizeof(struct node), .rounds = 3};
    for (int found; (found = getopt_long(argc, argv, "", table, NULL)) != -1;) {
        switch (found) {
        case OPTION_MODE:
            options.is_contended = strcmp(optarg, "contended") == 0;
            if (!options.is_contended && strcmp(optarg, "uncontended") != 0) {
                fprintf(stderr, "--mode: \"%s\" is neither uncontended nor contended\n", optarg);
                exit(BENCH_EXIT_USAGE);
            }
            break;
        case OPTION_COUNT:
            options.count = bench_parse_number("--count", optarg, 1, 1000000000000);
            break;
        case OPTION_SIZE:
            options.block_bytes =
                bench_parse_number("--size", optarg, sizeof(struct node), 1u << 30);
            break;
        case OPTION_ROUNDS:
            options.rounds = bench_parse_number("--rounds", optarg, 1, ROUND_LIMIT);
            break;
        case OPTION_ORDER:
            options.order = parse_order(optarg);
            break;
        case OPTION_JSON:
            options.is_json = true;
            break;
        case OPTION_HELP:
            print_help();
            exit(0);
        default:
            exit(BENCH_EXIT_USAGE);
        }
    }
    if (optind != argc) {
        fprintf(stderr, "list100m: unexpected argument \"%s\"\n", argv[optind]);
        exit(BENCH_EXIT_USAGE);
    }
    return options;
}

int main(int argc, char **argv) {
    struct options options = parse_options(argc, argv);
    reuse_hook = (typeof(floor_reuse) *)dlsym(RTLD_DEFAULT, "floor_reuse");

    uint64_t start = bench_now_ns();
    if (options.is_contended) {
        run_contended(&options);
    } else {
        run_uncontended(&options);
    }
    uint64_t total_ns = bench_now_ns() - start;

    check_counts(&options);
    uint64_t peak_kib = bench_peak_rss_kib();
    if (options.is_json) {
        print_json(&options, total_ns, peak_kib);
    } else {
        print_lines(&options, total_ns, peak_kib);
    }
    return 0;
}
