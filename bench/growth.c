/* SPDX-License-Identifier: MIT */
/*
 * Growth: does an operation cost the same whether 1 MiB or 8 GiB are alive? A heap of small blocks
 * of mixed sizes that doubles, step by step, up to --max-mib. One round of the report is one step.
 *
 * Timed per step: `operations` replacements among `samples` blocks that lie evenly spread over the
 * whole heap, after one untimed pass over them. So few blocks are in cache at every size of heap
 * and make no page faults: what changes from step to step is the allocator's own doing. Not timed:
 * the growing itself, whose cost is in the note fill_ns (per block, page faults included); rss_kib
 * is the RSS of the process after the step, live_kib what it requested.
 */
#include "lib/workload.h"

static uint64_t max_mib = 1024;
static uint64_t samples = 500;
static uint64_t min_bytes = 16;
static uint64_t max_bytes = 1024;
static uint64_t operations = 500000;

static const struct bench_option options[] = {
    {"max-mib", &max_mib, 1, 1 << 20, "live bytes of the last step, half the memory at most"},
    {"samples", &samples, 1, 1000000, "blocks that are replaced in the timed part"},
    {"min", &min_bytes, 16, 1 << 20, "smallest block, bytes"},
    {"max", &max_bytes, 16, 1 << 20, "largest block, bytes"},
    {"operations", &operations, 1, 1000000000, "replacements per step"},
    {0},
};

static uint32_t sizes[BENCH_SIZE_COUNT];
static void **table; /* pages are touched as the heap grows */
static uint64_t block_count;
static uint64_t live_bytes;
static uint64_t random_state = 0x243f6a8885a308d3u;

/* Sizes repeat along the table, so a slot implies its size: nothing else is stored per block. */
static size_t slot_bytes(uint64_t slot) { return sizes[slot % BENCH_SIZE_COUNT]; }

static void slot_fill(uint64_t slot) {
    table[slot] = bench_malloc(slot_bytes(slot));
    bench_mark(table[slot], slot_bytes(slot), slot);
}

static void slot_empty(uint64_t slot) {
    bench_check(table[slot], slot_bytes(slot), slot);
    free(table[slot]);
}

__attribute__((noinline)) static void grow_to(uint64_t bytes) {
    for (; live_bytes < bytes; block_count++) {
        slot_fill(block_count);
        live_bytes += slot_bytes(block_count);
    }
}

__attribute__((noinline)) static void replace_samples(uint64_t count) {
    uint64_t stride = block_count < samples ? 1 : block_count / samples;
    uint64_t used = block_count < samples ? block_count : samples;
    for (uint64_t i = 0; i < count; i++) {
        uint64_t slot = bench_random_below(&random_state, used) * stride;
        slot_empty(slot);
        slot_fill(slot);
    }
}

static void run_step(uint64_t mib) {
    uint64_t blocks_before = block_count;
    uint64_t start = bench_now_ns();
    grow_to(mib << 20);
    double fill_ns = (double)(bench_now_ns() - start) / (double)(block_count - blocks_before);
    replace_samples(8 * samples);
    bench_round_begin();
    replace_samples(operations);
    bench_round_end(operations);
    bench_note("live_kib", (double)live_bytes / 1024);
    bench_note("rss_kib", (double)bench_rss_kib());
    bench_note("fill_ns", fill_ns);
}

int main(int argc, char **argv) {
    bench_parse("growth", "Replaces blocks of a heap that doubles step by step.", options, argc,
                argv);
    if (max_bytes < min_bytes) {
        fprintf(stderr, "--max: less than --min\n");
        return BENCH_EXIT_USAGE;
    }
    bench_fill_sizes(sizes, min_bytes, max_bytes, false);
    size_t table_bytes = ((max_mib << 20) / min_bytes + 1) * sizeof(*table);
    table = mmap(NULL, table_bytes, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (table == MAP_FAILED) {
        bench_fail("mmap of %zu bytes: %s", table_bytes, strerror(errno));
    }
    uint64_t limit_mib = bench_proc_number("/proc/meminfo", "MemAvailable:") >> 11; /* one half */
    for (uint64_t mib = 1; mib <= max_mib && mib <= limit_mib; mib *= 2) {
        run_step(mib);
    }
    for (uint64_t i = 0; i < block_count; i++) {
        slot_empty(i);
    }
    return bench_report();
}
