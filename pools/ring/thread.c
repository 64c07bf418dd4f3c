/* SPDX-License-Identifier: MIT */
/*
 * The ring of each thread. Owns the key that ends it with its thread. Callers: the program. Calls
 * ring.c. No locks but that of pthread_once.
 */
#include "pools/ring/ring.h"

#include <pthread.h>

static __thread struct ps_ring *thread_ring;
static pthread_once_t once = PTHREAD_ONCE_INIT;
static pthread_key_t key;

/* Destructors of other keys may come later and use a ring again: it is made anew, and destroyed in
 * the next round of destructors. */
static void end_of_thread(void *ring) {
    thread_ring = NULL;
    ps_ring_destroy(ring);
}

static void make_key(void) { (void)pthread_key_create(&key, end_of_thread); }

PS_COLD static struct ps_ring *make_ring(void) {
    (void)pthread_once(&once, make_key);
    thread_ring = ps_ring_create_unlisted(NULL);
    if (thread_ring != NULL) {
        (void)pthread_setspecific(key, thread_ring);
    }
    return thread_ring;
}

struct ps_ring *ps_r_ring(void) {
    struct ps_ring *ring = thread_ring;
    return PS_LIKELY(ring != NULL) ? ring : make_ring();
}

struct ps_ring_frame *ps_r_begin(void) {
    struct ps_ring *ring = ps_r_ring();
    return ring != NULL ? ps_ring_begin(ring) : NULL;
}

void ps_r_seal(void) {
    struct ps_ring *ring = ps_r_ring();
    if (ring != NULL) {
        ps_ring_seal(ring);
    }
}

void *ps_r_zalloc(size_t bytes) {
    struct ps_ring *ring = ps_r_ring();
    return ring != NULL ? ps_ring_zalloc(ring, bytes) : NULL;
}
