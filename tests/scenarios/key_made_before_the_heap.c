// expect: exit 0
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * A key made in preinit_array, before the allocator can have made its own: its destructor may run
 * before or after the allocator's in every iteration; all 1..4 iterations work.
 */
#include "claim.h"
#include "heap_use.h"

#include <limits.h>
#include <pthread.h>

static pthread_key_t early_key;
static pthread_key_t late_key;
static int destructor_runs;

static void destroy_early(void *value);
static void destroy_late(void *value);

static void make_early_key(void) {
    if (pthread_key_create(&early_key, destroy_early) != 0) {
        _exit(4);
    }
}

__attribute__((section(".preinit_array"),
               used)) static void (*const preinit_entry)(void) = make_early_key;

/* `value` counts down in a block of its own; the last run leaves no block. */
static void count_down(pthread_key_t key, int *value) {
    CLAIM(heap_use());
    __atomic_fetch_add(&destructor_runs, 1, __ATOMIC_RELAXED);
    int left = *value - 1;
    free(value);
    if (left > 0) {
        int *next = malloc(sizeof *next);
        CLAIM(next != NULL);
        *next = left;
        CLAIM(pthread_setspecific(key, next) == 0);
    }
}

static void destroy_early(void *value) { count_down(early_key, value); }

static void destroy_late(void *value) { count_down(late_key, value); }

static void *arm(void *unused) {
    (void)unused;
    int *early = malloc(sizeof *early);
    int *late = malloc(sizeof *late);
    CLAIM(early != NULL && late != NULL);
    *early = PTHREAD_DESTRUCTOR_ITERATIONS;
    *late = PTHREAD_DESTRUCTOR_ITERATIONS;
    CLAIM(pthread_setspecific(early_key, early) == 0);
    CLAIM(pthread_setspecific(late_key, late) == 0);
    return NULL;
}

int main(void) {
    CLAIM(heap_use());
    CLAIM(pthread_key_create(&late_key, destroy_late) == 0);
    for (int i = 0; i < 100; i++) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, arm, NULL) == 0);
        CLAIM(pthread_join(thread, NULL) == 0);
    }
    CLAIM(destructor_runs == 100 * 2 * PTHREAD_DESTRUCTOR_ITERATIONS);
    return 0;
}
