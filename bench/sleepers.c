/* SPDX-License-Identifier: MIT */
/*
 * Sleepers: a pool of threads that have each worked hard once, freed everything and now sleep,
 * while the main thread continues to work for `seconds`. The resident memory then, `rss_mib`, is
 * what the allocator retains for idle threads; `worked_mib` is the resident memory before, when all
 * had freed. Timed is the work of the sleepers.
 */
#include "lib/workload.h"

#include <pthread.h>
#include <time.h>

enum { THREAD_LIMIT = 1024, LIVE_LIMIT = 4096 };

static uint64_t threads = 64;
static uint64_t operations = 20000;
static uint64_t live = 200;
static uint64_t min = 16;
static uint64_t max = 65536;
static uint64_t seconds = 4;

static const struct bench_option options[] = {
    {"threads", &threads, 1, THREAD_LIMIT, "threads that work and then sleep"},
    {"operations", &operations, 1, 1000000000, "blocks that each of them replaces"},
    {"live", &live, 1, LIVE_LIMIT, "blocks that each of them has at a time"},
    {"min", &min, 8, 1 << 20, "smallest block, bytes"},
    {"max", &max, 8, 1 << 20, "largest block, bytes"},
    {"seconds", &seconds, 0, 3600, "time that the main thread works on"},
    {0},
};

static uint32_t sizes[BENCH_SIZE_COUNT];
static pthread_barrier_t has_worked;
static pthread_barrier_t is_measured;

static void work(uint64_t seed, uint64_t count) {
    void *blocks[LIVE_LIMIT] = {NULL};
    uint64_t state = 0x9e3779b97f4a7c15u * (seed + 1);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t at = bench_random_below(&state, live);
        uint32_t size = sizes[bench_random_below(&state, BENCH_SIZE_COUNT)];
        free(blocks[at]);
        blocks[at] = bench_malloc(size);
        bench_mark(blocks[at], size, i);
    }
    for (uint64_t i = 0; i < live; i++) {
        free(blocks[i]);
    }
}

static void *work_and_sleep(void *argument) {
    work((uint64_t)(uintptr_t)argument, operations);
    pthread_barrier_wait(&has_worked);
    pthread_barrier_wait(&is_measured);
    return NULL;
}

/* Sizes up to 4 KiB only, a little at a time: time passes in the allocator, little else does. */
static void work_on(void) {
    uint64_t end_ns = bench_now_ns() + seconds * 1000000000u;
    while (bench_now_ns() < end_ns) {
        void *blocks[100];
        for (size_t i = 0; i < 100; i++) {
            blocks[i] = bench_malloc(16 + 40 * i);
            bench_mark(blocks[i], 16, i);
        }
        for (size_t i = 0; i < 100; i++) {
            free(blocks[i]);
        }
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    }
}

int main(int argc, char **argv) {
    static pthread_t started[THREAD_LIMIT];
    bench_parse("sleepers", "Threads that have worked and sleep, while another works on.", options,
                argc, argv);
    if (min > max) {
        bench_fail("--min is above --max");
    }
    bench_fill_sizes(sizes, min, max, true);
    pthread_barrier_init(&has_worked, NULL, (unsigned)threads + 1);
    pthread_barrier_init(&is_measured, NULL, (unsigned)threads + 1);
    uint64_t before_kib = bench_rss_kib();
    bench_round_begin();
    for (uint64_t i = 0; i < threads; i++) {
        int error = pthread_create(&started[i], NULL, work_and_sleep, (void *)(uintptr_t)i);
        if (error != 0) {
            bench_fail("pthread_create: %s", strerror(error));
        }
    }
    pthread_barrier_wait(&has_worked);
    bench_round_end(threads * operations);
    bench_note("worked_mib", (double)(bench_rss_kib() - before_kib) / 1024);
    work_on();
    bench_note("rss_mib", (double)(bench_rss_kib() - before_kib) / 1024);
    pthread_barrier_wait(&is_measured);
    for (uint64_t i = 0; i < threads; i++) {
        pthread_join(started[i], NULL);
    }
    return bench_report();
}
