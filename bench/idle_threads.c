/* SPDX-License-Identifier: MIT */
/*
 * Idle threads: a pool of threads that each did a little work once and now sleep. The memory of one
 * more of them is the price of a thread cache.
 *
 * Measured, not timed: the private dirty memory of the process with `threads` threads that have
 * each allocated one block of three sizes, freed the first two and not the third, less the same
 * with one such thread, per thread: dirty_kib_per_thread. It includes the 8 to 12 KiB that a thread
 * touches of its stack of 64 KiB, the same for all. The time of a round is that of starting them.
 */
#include "lib/workload.h"

#include <pthread.h>

enum { THREAD_LIMIT = 4096, STACK_BYTES = 64 << 10 };
enum { SMALL_BYTES = 24, MIDDLE_BYTES = 200, LARGE_BYTES = 3000 };

static uint64_t threads = 200;

static const struct bench_option options[] = {
    {"threads", &threads, 1, THREAD_LIMIT, "threads beyond the first"},
    {0},
};

static pthread_barrier_t is_settled; /* by all threads alive, and main */
static pthread_barrier_t is_measured;

static void *work_and_wait(void *argument) {
    void *small = bench_malloc(SMALL_BYTES);
    void *middle = bench_malloc(MIDDLE_BYTES);
    void *large = bench_malloc(LARGE_BYTES);
    bench_mark(small, SMALL_BYTES, 1);
    bench_mark(middle, MIDDLE_BYTES, 2);
    bench_mark(large, LARGE_BYTES, 3);
    bench_check(small, SMALL_BYTES, 1);
    free(small);
    bench_check(middle, MIDDLE_BYTES, 2);
    free(middle);
    pthread_barrier_wait(&is_settled);
    pthread_barrier_wait(&is_measured);
    bench_check(large, LARGE_BYTES, 3);
    free(large);
    return argument;
}

/* Private dirty KiB of the process while `count` such threads sleep; all have ended after it. */
static uint64_t dirty_kib_with(uint64_t count) {
    static pthread_t started[THREAD_LIMIT + 1];
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, STACK_BYTES);
    pthread_barrier_init(&is_settled, NULL, (unsigned)count + 1);
    pthread_barrier_init(&is_measured, NULL, (unsigned)count + 1);
    bench_round_begin();
    for (uint64_t i = 0; i < count; i++) {
        int error = pthread_create(&started[i], &attributes, work_and_wait, NULL);
        if (error != 0) {
            bench_fail("pthread_create: %s", strerror(error));
        }
    }
    pthread_barrier_wait(&is_settled);
    bench_round_end(count);
    uint64_t dirty_kib = bench_dirty_kib();
    pthread_barrier_wait(&is_measured);
    for (uint64_t i = 0; i < count; i++) {
        pthread_join(started[i], NULL);
    }
    return dirty_kib;
}

int main(int argc, char **argv) {
    bench_parse("idle_threads", "Starts threads that touch three sizes and sleep.", options, argc,
                argv);
    uint64_t with_one_kib = dirty_kib_with(1);
    uint64_t with_all_kib = dirty_kib_with(threads + 1);
    if (with_one_kib == 0 || with_all_kib <= with_one_kib) {
        bench_fail("no private dirty memory to be seen in /proc/self/smaps_rollup");
    }
    bench_note("dirty_kib_per_thread", (double)(with_all_kib - with_one_kib) / (double)threads);
    return bench_report();
}
