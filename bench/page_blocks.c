/* SPDX-License-Identifier: MIT */
/*
 * The page-alignment benchmark: 100,000 blocks of 4096 bytes from posix_memalign, aligned to 16 or
 * to 4096; allocate and touch them all [timed], free them all in the same order [timed], a few
 * rounds. It times the malloc that the process happens to have: run it under LD_PRELOAD, one
 * process per alignment, for the second would find the first one's heap.
 *
 * The figure of merit: aligned to a page should cost no more than aligned to 16. The first round
 * pays for fresh pages, the later ones show what the allocator retains.
 *
 * The program checks itself, untimed, between allocating and freeing: every block is aligned as
 * requested and still contains the mark that was written into it. A failure ends it with status 1.
 */
#include "lib/floor.h"
#include "lib/workload.h"

#include <dlfcn.h>

struct round {
    uint64_t alloc_ns;
    uint64_t free_ns;
    uint64_t alloc_cpu_ns;
    uint64_t free_cpu_ns;
};

struct options {
    uint64_t count;
    uint64_t block_bytes;
    uint64_t alignment;
    uint64_t rounds;
};

static struct options settings = {
    .count = 100000, .block_bytes = 4096, .alignment = 16, .rounds = 5};

static const struct bench_option numbers[] = {
    {"align", &settings.alignment, sizeof(void *), 1u << 30, "alignment, a power of two"},
    {"count", &settings.count, 1, 100000000, "blocks"},
    {"size", &settings.block_bytes, sizeof(uint64_t), 1u << 30, "bytes per block"},
    {"rounds", &settings.rounds, 1, BENCH_ROUND_LIMIT, "how often all are allocated and freed"},
    {0},
};

static struct round rounds[BENCH_ROUND_LIMIT];
static typeof(floor_reuse) *reuse_hook; /* NULL under every real allocator */

static uint64_t mark_of(uint64_t index) { return index * 0x9e3779b97f4a7c15u + 1; }

__attribute__((noinline)) static void allocate_all(void **blocks, const struct options *options) {
    for (uint64_t i = 0; i < options->count; i++) {
        void *block = NULL;
        int error = posix_memalign(&block, options->alignment, options->block_bytes);
        if (error != 0) {
            bench_fail("posix_memalign(%llu, %llu): %s", (unsigned long long)options->alignment,
                       (unsigned long long)options->block_bytes, strerror(error));
        }
        *(uint64_t *)block = mark_of(i);
        blocks[i] = block;
    }
}

__attribute__((noinline)) static void free_all(void **blocks, const struct options *options) {
    for (uint64_t i = 0; i < options->count; i++) {
        free(blocks[i]);
    }
}

static void check_all(void **blocks, const struct options *options) {
    for (uint64_t i = 0; i < options->count; i++) {
        if ((uintptr_t)blocks[i] % options->alignment != 0) {
            bench_fail("block %llu at %p is not aligned to %llu", (unsigned long long)i, blocks[i],
                       (unsigned long long)options->alignment);
        }
        if (*(uint64_t *)blocks[i] != mark_of(i)) {
            bench_fail("block %llu was overwritten", (unsigned long long)i);
        }
    }
}

/* Only for the floor, as in list100m.c: passes the dead blocks to it if they are one unbroken
 * stretch.
 */
static void reuse_dead_blocks(void **blocks, const struct options *options) {
    if (reuse_hook == NULL) {
        return;
    }
    char *first = blocks[0];
    char *last = blocks[options->count - 1];
    if ((uint64_t)(last - first) == (options->count - 1) * options->block_bytes) {
        reuse_hook(first, last + options->block_bytes);
    }
}

static void run_rounds(void **blocks, const struct options *options) {
    for (uint64_t i = 0; i < options->rounds; i++) {
        uint64_t start_cpu = bench_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
        uint64_t start = bench_now_ns();
        allocate_all(blocks, options);
        rounds[i].alloc_ns = bench_now_ns() - start;
        rounds[i].alloc_cpu_ns = bench_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start_cpu;

        check_all(blocks, options);

        start_cpu = bench_cpu_ns(CLOCK_THREAD_CPUTIME_ID);
        start = bench_now_ns();
        free_all(blocks, options);
        rounds[i].free_ns = bench_now_ns() - start;
        rounds[i].free_cpu_ns = bench_cpu_ns(CLOCK_THREAD_CPUTIME_ID) - start_cpu;
        reuse_dead_blocks(blocks, options);
    }
}

static void print_json(const struct options *options, uint64_t total_ns, uint64_t peak_kib) {
    printf("{\"benchmark\": \"page_blocks\", \"alignment\": %llu, \"count\": %llu, "
           "\"block_bytes\": %llu, \"floor_reuse\": %s, \"rounds\": [",
           (unsigned long long)options->alignment, (unsigned long long)options->count,
           (unsigned long long)options->block_bytes, reuse_hook != NULL ? "true" : "false");
    for (uint64_t i = 0; i < options->rounds; i++) {
        printf("%s{\"alloc_ms\": %.4f, \"free_ms\": %.4f, \"alloc_cpu_ms\": %.4f, "
               "\"free_cpu_ms\": %.4f}",
               i == 0 ? "" : ", ", bench_ms(rounds[i].alloc_ns), bench_ms(rounds[i].free_ns),
               bench_ms(rounds[i].alloc_cpu_ns), bench_ms(rounds[i].free_cpu_ns));
    }
    printf("], \"total_ms\": %.4f, \"peak_rss_kib\": %llu}\n", bench_ms(total_ns),
           (unsigned long long)peak_kib);
}

static void print_lines(const struct options *options, uint64_t total_ns, uint64_t peak_kib) {
    printf("%llu blocks of %llu bytes aligned to %llu\n", (unsigned long long)options->count,
           (unsigned long long)options->block_bytes, (unsigned long long)options->alignment);
    for (uint64_t i = 0; i < options->rounds; i++) {
        printf("round %llu: alloc %9.2f ms   free %9.2f ms\n", (unsigned long long)i + 1,
               bench_ms(rounds[i].alloc_ns), bench_ms(rounds[i].free_ns));
    }
    printf("total: %.1f ms, peak RSS %.1f MiB\n", bench_ms(total_ns), (double)peak_kib / 1024);
}

int main(int argc, char **argv) {
    const struct options *options = &settings;
    bench_parse("page_blocks",
                "Allocates blocks by posix_memalign and frees them, some rounds of it.", numbers,
                argc, argv);
    if ((options->alignment & (options->alignment - 1)) != 0) {
        fprintf(stderr, "--align: %llu is not a power of two\n",
                (unsigned long long)options->alignment);
        return BENCH_EXIT_USAGE;
    }
    reuse_hook = (typeof(floor_reuse) *)dlsym(RTLD_DEFAULT, "floor_reuse");

    void **blocks = bench_table(options->count * sizeof(void *));
    uint64_t start = bench_now_ns();
    run_rounds(blocks, options);
    uint64_t total_ns = bench_now_ns() - start;

    uint64_t peak_kib = bench_peak_rss_kib();
    if (bench_is_json) {
        print_json(options, total_ns, peak_kib);
    } else {
        print_lines(options, total_ns, peak_kib);
    }
    return 0;
}
