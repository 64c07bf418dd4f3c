// expect: exit 0
// timeout: 90
/* SPDX-License-Identifier: MIT */
/*
 * Detached threads that never call malloc: libc frees memory of each after its destructors. The
 * thread gets no heap by that, nothing of it is read after its end, and 30,000 of them add no
 * memory.
 */
#include "claim.h"

#include <pthread.h>

#define CREATORS 2
#define ROUNDS 15000
#define WARM_UP 2000
#define GROWTH_BYTES ((size_t)4 << 20)

static pthread_barrier_t is_warm;

static void *do_nothing(void *unused) { return unused; }

static void create(const pthread_attr_t *attributes, int count) {
    for (int i = 0; i < count;) {
        pthread_t thread;
        i += pthread_create(&thread, attributes, do_nothing, NULL) == 0; /* EAGAIN: too many now */
    }
}

static void *create_all(void *attributes) {
    create(attributes, WARM_UP);
    pthread_barrier_wait(&is_warm);
    pthread_barrier_wait(&is_warm);
    create(attributes, ROUNDS);
    return NULL;
}

int main(void) {
    pthread_attr_t attributes;
    pthread_t creators[CREATORS];
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    pthread_barrier_init(&is_warm, NULL, CREATORS + 1);
    for (int i = 0; i < CREATORS; i++) {
        CLAIM(pthread_create(&creators[i], NULL, create_all, &attributes) == 0);
    }
    pthread_barrier_wait(&is_warm);
    size_t before = claim_rss_bytes();
    pthread_barrier_wait(&is_warm);
    for (int i = 0; i < CREATORS; i++) {
        CLAIM(pthread_join(creators[i], NULL) == 0);
    }
    CLAIM(claim_rss_bytes() < before + GROWTH_BYTES);
    return 0;
}
