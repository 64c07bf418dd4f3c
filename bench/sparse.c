/* SPDX-License-Identifier: MIT */
/*
 * Sparse blocks: buffers that are allocated for the worst case and contain a short line each.
 *
 * `blocks` blocks of 8 to 64 KiB, uniformly drawn; the first `touched` bytes of each are written.
 * Measured, not timed: the RSS with all of them live, rss_mib. One page per block is what they
 * need.
 */
#include "lib/workload.h"

static uint64_t blocks = 8192;
static uint64_t touched = 64;

enum { MIN_BYTES = 8 << 10, MAX_BYTES = 64 << 10 };

static const struct bench_option options[] = {
    {"blocks", &blocks, 1, 1u << 20, "blocks of 8 to 64 KiB"},
    {"touched", &touched, 1, MIN_BYTES, "bytes of each that are written"},
    {0},
};

int main(int argc, char **argv) {
    static uint32_t sizes[BENCH_SIZE_COUNT];
    bench_parse("sparse", "Large blocks that are hardly touched.", options, argc, argv);
    bench_fill_sizes(sizes, MIN_BYTES, MAX_BYTES, false);
    unsigned char **table = bench_table(blocks * sizeof(*table));
    uint64_t before_kib = bench_rss_kib();
    bench_round_begin();
    for (uint64_t i = 0; i < blocks; i++) {
        table[i] = bench_malloc(sizes[i % BENCH_SIZE_COUNT]);
        memset(table[i], (int)(i % 251) + 1, touched);
    }
    uint64_t rss_kib = bench_rss_kib();
    for (uint64_t i = 0; i < blocks; i++) {
        unsigned char mark = (unsigned char)(i % 251 + 1);
        if (table[i][0] != mark || table[i][touched - 1] != mark) {
            bench_fail("a block of %u bytes was overwritten",
                       (unsigned)sizes[i % BENCH_SIZE_COUNT]);
        }
        free(table[i]);
    }
    bench_round_end(blocks);
    bench_note("rss_mib", (double)(rss_kib - before_kib) / 1024);
    return bench_report();
}
