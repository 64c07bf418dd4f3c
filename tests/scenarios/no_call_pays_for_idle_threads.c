// expect: exit 0
// marks: slow
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * A thread allocates and sleeps, another frees its blocks, and a third goes on with its work: no
 * call of the third, nor of the first when it wakes up, takes time that grows with what came back.
 * The memory goes back all the same.
 *
 *     no_call_pays_for_idle_threads [MiB]
 */
#include "goes_back.h"
#include "own_time.h"

#include <pthread.h>

#define BLOCK_BYTES 1000
#define IDLE_MS 1300 /* longer than the purge delay */
#define WORK_MS 4000

static size_t block_count;
static void **blocks;
static pthread_barrier_t filled;
static pthread_barrier_t over;

static void *fill_and_sleep(void *unused) {
    (void)unused;
    for (size_t i = 0; i < block_count; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    pthread_barrier_wait(&filled);
    pthread_barrier_wait(&over);
    own_time_work(100);
    return NULL;
}

static void *free_all(void *unused) {
    (void)unused;
    for (size_t i = 0; i < block_count; i++) {
        free(blocks[i]);
    }
    return NULL;
}

static void attempt(void) {
    const struct timespec idle = {IDLE_MS / 1000, IDLE_MS % 1000 * 1000000};
    pthread_t owner, other;
    blocks = goes_back_table(block_count);
    CLAIM(pthread_barrier_init(&filled, NULL, 2) == 0);
    CLAIM(pthread_barrier_init(&over, NULL, 2) == 0);
    CLAIM(pthread_create(&owner, NULL, fill_and_sleep, NULL) == 0);
    pthread_barrier_wait(&filled);
    nanosleep(&idle, NULL);
    CLAIM(pthread_create(&other, NULL, free_all, NULL) == 0);
    own_time_work(WORK_MS);
    CLAIM(pthread_join(other, NULL) == 0);
    CLAIM(goes_back_heap_rss(block_count) < block_count * BLOCK_BYTES / 4);
    pthread_barrier_wait(&over);
    CLAIM(pthread_join(owner, NULL) == 0);
}

int main(int argc, char **argv) {
    block_count = ((argc > 1 ? (size_t)atoi(argv[1]) : 1024) << 20) / BLOCK_BYTES;
    return own_time_attempts(attempt);
}
