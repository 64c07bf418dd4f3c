/* SPDX-License-Identifier: MIT */
/*
 * Turns: threads that each have a peak, one after the other. A thread allocates `mib` of small
 * blocks, frees all but one in `keep_one_of`, and sleeps while the next one has its turn. One
 * peak and the retained blocks are needed at most; an allocator whose threads retain free memory
 * needs a peak per thread.
 *
 * Measured: the resident memory when the last turn has ended, `rss_mib`, and what the blocks alone
 * need at that moment, `needed_mib`: the retained ones, and the last peak. Timed are all turns.
 */
#include "lib/workload.h"

#include <pthread.h>

enum { THREAD_LIMIT = 1024 };

static uint64_t threads = 16;
static uint64_t mib = 50;
static uint64_t min = 16;
static uint64_t max = 512;
static uint64_t keep_one_of = 20;

static const struct bench_option options[] = {
    {"threads", &threads, 1, THREAD_LIMIT, "threads that take turns"},
    {"mib", &mib, 1, 65536, "MiB that each of them allocates"},
    {"min", &min, 8, 65536, "smallest block, bytes"},
    {"max", &max, 8, 65536, "largest block, bytes"},
    {"keep-one-of", &keep_one_of, 1, 1000000, "one block in so many is retained"},
    {0},
};

static uint32_t sizes[BENCH_SIZE_COUNT];
static void **blocks; /* of the turn; retained blocks are not read again */
static uint64_t kept_bytes;
static pthread_barrier_t is_over;

static void *take_turn(void *argument) {
    uint64_t thread = (uint64_t)(uintptr_t)argument;
    uint64_t state = 0x9e3779b97f4a7c15u + thread;
    uint64_t count = 0;
    for (uint64_t bytes = 0; bytes < mib << 20; count++) {
        uint32_t size = sizes[count % BENCH_SIZE_COUNT];
        blocks[count] = bench_malloc(size);
        bench_mark(blocks[count], size, count);
        bytes += size;
    }
    for (uint64_t i = 0; i < count; i++) {
        uint32_t size = sizes[i % BENCH_SIZE_COUNT];
        bench_check(blocks[i], size, i);
        if (bench_random_below(&state, keep_one_of) != 0) {
            free(blocks[i]);
        } else {
            kept_bytes += size;
        }
    }
    return NULL;
}

static pthread_mutex_t turn_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t turn_changed = PTHREAD_COND_INITIALIZER;
static uint64_t turn;

static void *take_turn_and_wait(void *argument) {
    pthread_mutex_lock(&turn_lock);
    while (turn != (uint64_t)(uintptr_t)argument) {
        pthread_cond_wait(&turn_changed, &turn_lock);
    }
    pthread_mutex_unlock(&turn_lock);
    take_turn(argument);
    pthread_mutex_lock(&turn_lock);
    turn++;
    pthread_cond_broadcast(&turn_changed);
    pthread_mutex_unlock(&turn_lock);
    pthread_barrier_wait(&is_over);
    return NULL;
}

int main(int argc, char **argv) {
    static pthread_t started[THREAD_LIMIT];
    bench_parse("turns", "Threads that each have a peak, one after the other.", options, argc,
                argv);
    if (min > max) {
        bench_fail("--min is above --max");
    }
    bench_fill_sizes(sizes, min, max, false);
    blocks = bench_table(((mib << 20) / min + 1) * sizeof(*blocks));
    uint64_t before_kib = bench_rss_kib();
    pthread_barrier_init(&is_over, NULL, (unsigned)threads + 1);
    bench_round_begin();
    for (uint64_t i = 0; i < threads; i++) {
        int error = pthread_create(&started[i], NULL, take_turn_and_wait, (void *)(uintptr_t)i);
        if (error != 0) {
            bench_fail("pthread_create: %s", strerror(error));
        }
    }
    pthread_mutex_lock(&turn_lock);
    while (turn != threads) {
        pthread_cond_wait(&turn_changed, &turn_lock);
    }
    pthread_mutex_unlock(&turn_lock);
    bench_round_end(threads);
    bench_note("rss_mib", (double)(bench_rss_kib() - before_kib) / 1024);
    bench_note("needed_mib", (double)kept_bytes / (1 << 20) + (double)mib);
    pthread_barrier_wait(&is_over);
    for (uint64_t i = 0; i < threads; i++) {
        pthread_join(started[i], NULL);
    }
    return bench_report();
}
