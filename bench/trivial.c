/* SPDX-License-Identifier: MIT */
/*
 * A process that hardly allocates: three blocks, and it ends. What it needs in memory is what an
 * allocator costs every process; the launcher reads that at its exit. Not timed here: `startup`
 * does.
 *
 * It uses no stdio and no getopt, which would touch pages of libc: any argument at all makes it
 * write its report, which has no rounds.
 */
#include "lib/workload.h"

enum { BLOCK_COUNT = 3, BLOCK_BYTES = 100 };

int main(int argc, char **argv) {
    static const char report[] = "{\"benchmark\": \"trivial\", \"rounds\": []}\n";
    void *blocks[BLOCK_COUNT];
    (void)argv;
    bench_name = "trivial";
    for (uint64_t i = 0; i < BLOCK_COUNT; i++) {
        blocks[i] = bench_malloc(BLOCK_BYTES);
        bench_mark(blocks[i], BLOCK_BYTES, i);
    }
    for (uint64_t i = 0; i < BLOCK_COUNT; i++) {
        bench_check(blocks[i], BLOCK_BYTES, i);
        free(blocks[i]);
    }
    bool is_told = argc < 2 || write(STDOUT_FILENO, report, sizeof(report) - 1) > 0;
    return is_told ? 0 : BENCH_EXIT_WRONG;
}
