// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * pthread-key destructors allocate, free and arm their key again, up to the last iteration that
 * POSIX allows: the heap works also after the allocator's own thread clean-up ran, and a hundred
 * of such threads leave no growth.
 */
#include "claim.h"
#include "heap_use.h"

#include <limits.h>
#include <malloc.h>
#include <pthread.h>

#define KEYS 12
#define THREADS 3000 /* leaked blocks would be 30 MB; retained: 0.2 to 0.4, hardened up to 5 */

struct rearming {
    int key;
    int runs;
    int wanted;
    unsigned char *kept;
};

static pthread_key_t keys[KEYS];
static int destructor_runs;

static void destroy(void *value) {
    struct rearming *record = value;
    CLAIM(heap_use_holds(record->kept, 800, (unsigned char)record->key));
    free(record->kept);
    CLAIM(record->key % 4 != 0 || heap_use());
    record->runs++;
    __atomic_fetch_add(&destructor_runs, 1, __ATOMIC_RELAXED);
    if (record->runs == record->wanted) {
        free(record);
        return;
    }
    record->kept = malloc(800);
    CLAIM(record->kept != NULL);
    heap_use_write(record->kept, 800, (unsigned char)record->key);
    CLAIM(pthread_setspecific(keys[record->key], record) == 0);
}

static void *arm_keys(void *unused) {
    (void)unused;
    for (int key = 0; key < KEYS; key++) {
        struct rearming *record = malloc(sizeof *record);
        unsigned char *kept = malloc(800);
        CLAIM(record != NULL && kept != NULL);
        heap_use_write(kept, 800, (unsigned char)key);
        *record = (struct rearming){key, 0, key % PTHREAD_DESTRUCTOR_ITERATIONS + 1, kept};
        CLAIM(pthread_setspecific(keys[key], record) == 0);
    }
    return NULL;
}

static void run_threads(int count) {
    for (int i = 0; i < count; i++) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, arm_keys, NULL) == 0);
        CLAIM(pthread_join(thread, NULL) == 0);
    }
}

/* Without memory within the purge delay: each thread frees 70 MB, and a machine under load has up
 * to 50 MiB of that at a time, however many threads there were. */
static size_t kept_bytes(void) {
    (void)malloc_trim(0);
    return claim_rss_bytes();
}

int main(void) {
    for (int key = 0; key < KEYS; key++) {
        CLAIM(pthread_key_create(&keys[key], destroy) == 0);
    }
    run_threads(50);
    size_t before = kept_bytes();
    run_threads(THREADS);
    CLAIM(kept_bytes() < before + ((size_t)8 << 20));
    /* keys 0..11 require 1, 2, 3, 4, 1, … runs: 30 per thread */
    CLAIM(destructor_runs == (50 + THREADS) * 30);
    return 0;
}
