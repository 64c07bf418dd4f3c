/* SPDX-License-Identifier: MIT */
/*
 * Bursts with long-lived survivors: a request, a frame, a compiler pass allocates a great deal,
 * frees nearly all of it at its end, and leaves a few blocks that live long. The survivors
 * pin the pages of the dead; what an allocator makes of the holes decides the RSS.
 *
 * Timed: `bursts` bursts per round, each allocating `blocks` marked blocks, freeing all but a
 * random one in `keep`, and retiring as many of the oldest survivors as exceed `survivors`. Not
 * timed: as many bursts as fill the survivors, before the first round. An operation is one malloc
 * with its free. The note rss_kib is the RSS after the round.
 */
#include "lib/workload.h"

static uint64_t blocks = 20000;
static uint64_t keep = 50;
static uint64_t survivors = 20000;
static uint64_t min_bytes = 16;
static uint64_t max_bytes = 4096;
static uint64_t bursts = 20;
static uint64_t rounds = 5;

static const struct bench_option options[] = {
    {"blocks", &blocks, 1, 100000000, "blocks per burst"},
    {"keep", &keep, 1, 1000000, "one block in so many survives"},
    {"survivors", &survivors, 1, 100000000, "survivors alive"},
    {"min", &min_bytes, 16, 1 << 20, "smallest block, bytes"},
    {"max", &max_bytes, 16, 1 << 20, "largest block, bytes; sizes are log-uniform"},
    {"bursts", &bursts, 1, 1000000, "bursts per round"},
    {"rounds", &rounds, 1, BENCH_ROUND_LIMIT, "timed rounds"},
    {0},
};

struct slot {
    void *block; /* NULL: none yet */
    uint64_t bytes;
    uint64_t mark;
};

static uint32_t sizes[BENCH_SIZE_COUNT];
static struct slot *burst;
static struct slot *kept; /* the survivors, a ring: the next one to come in is the oldest */
static uint64_t kept_count;
static uint64_t random_state = 0x243f6a8885a308d3u;

static void slot_empty(struct slot *slot) {
    if (slot->block != NULL) {
        bench_check(slot->block, slot->bytes, slot->mark);
        free(slot->block);
        slot->block = NULL;
    }
}

__attribute__((noinline)) static void run_burst(void) {
    for (uint64_t i = 0; i < blocks; i++) {
        uint64_t draw = bench_random(&random_state);
        burst[i].bytes = sizes[draw % BENCH_SIZE_COUNT];
        burst[i].mark = draw;
        burst[i].block = bench_malloc(burst[i].bytes);
        bench_mark(burst[i].block, burst[i].bytes, draw);
    }
    for (uint64_t i = 0; i < blocks; i++) {
        if (bench_random_below(&random_state, keep) == 0) {
            struct slot *oldest = &kept[kept_count++ % survivors];
            slot_empty(oldest);
            *oldest = burst[i];
        } else {
            slot_empty(&burst[i]);
        }
    }
}

int main(int argc, char **argv) {
    bench_parse("bursts", "Bursts of blocks that die together, except a few.", options, argc, argv);
    if (max_bytes < min_bytes) {
        fprintf(stderr, "--max: less than --min\n");
        return BENCH_EXIT_USAGE;
    }
    bench_fill_sizes(sizes, min_bytes, max_bytes, true);
    burst = bench_table(blocks * sizeof(*burst));
    kept = bench_table(survivors * sizeof(*kept));
    while (kept_count < survivors) {
        run_burst();
    }
    for (uint64_t i = 0; i < rounds; i++) {
        bench_round_begin();
        for (uint64_t j = 0; j < bursts; j++) {
            run_burst();
        }
        bench_round_end(bursts * blocks);
        bench_note("rss_kib", (double)bench_rss_kib());
    }
    for (uint64_t i = 0; i < survivors; i++) {
        slot_empty(&kept[i]);
    }
    return bench_report();
}
