/* SPDX-License-Identifier: MIT */
/*
 * Silence: a peak of memory is freed, and then the program makes no call of malloc or free at all,
 * as an idle server does, at night or before its next job.
 *
 * `threads` threads allocate `mib` together, in blocks of 16 bytes to `max`, each doubling as
 * likely as the next, free them and sleep for `ms`. With `keep-one-of` they retain one block in so
 * many, at random, as a cache or a table of sessions does. Measured, not timed: rss_mib after the
 * sleep, needed_mib, the retained blocks, and kept_percent, the first in percent of the peak.
 */
#include "lib/workload.h"

#include <pthread.h>

enum { THREAD_LIMIT = 1024, MIN_BYTES = 16 };

static uint64_t threads = 1;
static uint64_t mib = 480;
static uint64_t max = 32 << 10;
static uint64_t keep_one_of;
static uint64_t ms = 3000;

static const struct bench_option options[] = {
    {"threads", &threads, 1, THREAD_LIMIT, "threads, the main one among them"},
    {"mib", &mib, 1, 65536, "allocated by all together"},
    {"max", &max, MIN_BYTES, 1 << 20, "largest block, bytes"},
    {"keep-one-of", &keep_one_of, 0, 1000000, "one block in so many is retained; 0: none"},
    {"ms", &ms, 1, 60000, "of silence"},
    {0},
};

static uint32_t sizes[BENCH_SIZE_COUNT];
static uint64_t blocks_per_thread;
static uint64_t x_needed_bytes; /* of all threads */
static pthread_barrier_t is_full;
static pthread_barrier_t is_silent;
static pthread_barrier_t is_measured;

static void rise_and_free(void **blocks) {
    for (uint64_t i = 0; i < blocks_per_thread; i++) {
        uint32_t bytes = sizes[i % BENCH_SIZE_COUNT];
        blocks[i] = bench_malloc(bytes);
        bench_mark(blocks[i], bytes, i);
    }
    pthread_barrier_wait(&is_full);
    uint64_t state = 0x9e3779b97f4a7c15u ^ (uintptr_t)blocks;
    uint64_t needed_bytes = 0;
    for (uint64_t i = 0; i < blocks_per_thread; i++) {
        uint32_t bytes = sizes[i % BENCH_SIZE_COUNT];
        bench_check(blocks[i], bytes, i);
        if (keep_one_of != 0 && bench_random_below(&state, keep_one_of) == 0) {
            needed_bytes += bytes;
        } else {
            free(blocks[i]);
        }
    }
    __atomic_fetch_add(&x_needed_bytes, needed_bytes, __ATOMIC_RELAXED);
    pthread_barrier_wait(&is_silent);
}

static void *rise_and_sleep(void *argument) {
    rise_and_free(argument);
    pthread_barrier_wait(&is_measured);
    return NULL;
}

static void start_others(pthread_t *started, void **blocks) {
    for (uint64_t i = 1; i < threads; i++) {
        int error =
            pthread_create(&started[i], NULL, rise_and_sleep, blocks + i * blocks_per_thread);
        if (error != 0) {
            bench_fail("pthread_create: %s", strerror(error));
        }
    }
}

int main(int argc, char **argv) {
    bench_parse("silence", "Frees a peak and makes no call.", options, argc, argv);
    static pthread_t started[THREAD_LIMIT];
    bench_fill_sizes(sizes, MIN_BYTES, (uint32_t)max, true);
    for (uint64_t bytes = 0; bytes < (mib << 20) / threads; blocks_per_thread++) {
        bytes += sizes[blocks_per_thread % BENCH_SIZE_COUNT];
    }
    size_t table_bytes = threads * blocks_per_thread * sizeof(void *);
    void **blocks = bench_table(table_bytes);
    pthread_barrier_init(&is_full, NULL, (unsigned)threads);
    pthread_barrier_init(&is_silent, NULL, (unsigned)threads);
    pthread_barrier_init(&is_measured, NULL, (unsigned)threads);
    uint64_t before_kib = bench_rss_kib();
    bench_round_begin();
    start_others(started, blocks);
    rise_and_free(blocks);
    uint64_t peak_kib = bench_peak_rss_kib();
    struct timespec silence = {.tv_sec = (time_t)(ms / 1000),
                               .tv_nsec = (long)(ms % 1000) * 1000000};
    nanosleep(&silence, NULL);
    uint64_t rss_kib = bench_rss_kib();
    bench_round_end(threads * blocks_per_thread);
    pthread_barrier_wait(&is_measured);
    uint64_t kept_kib = rss_kib > before_kib ? rss_kib - before_kib : 0;
    bench_note("rss_mib", (double)kept_kib / 1024);
    bench_note("needed_mib", (double)x_needed_bytes / (1 << 20));
    bench_note("kept_percent", 100.0 * (double)kept_kib / (double)(peak_kib - before_kib));
    for (uint64_t i = 1; i < threads; i++) {
        pthread_join(started[i], NULL);
    }
    return bench_report();
}
