// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * One thread allocates 64-byte blocks, another checks and frees them, three million through a
 * ring: every block arrives intact, and the memory flows back to its producer (RSS bounded).
 */
#include "claim.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#define SLOTS 4096
#define BLOCKS 3000000u
#define WORDS 8

static uint64_t *ring[SLOTS];
static _Atomic unsigned produced;
static _Atomic unsigned consumed;

static void *consume(void *unused) {
    (void)unused;
    for (unsigned i = 0; i < BLOCKS; i++) {
        while (atomic_load_explicit(&produced, memory_order_acquire) == i) {
            sched_yield();
        }
        uint64_t *block = ring[i % SLOTS];
        for (unsigned word = 0; word < WORDS; word++) {
            CLAIM(block[word] == i * 0x9e3779b97f4a7c15u + word);
        }
        free(block);
        atomic_store_explicit(&consumed, i + 1, memory_order_release);
    }
    return NULL;
}

int main(void) {
    pthread_t consumer;
    CLAIM(pthread_create(&consumer, NULL, consume, NULL) == 0);
    size_t settled = 0;
    for (unsigned i = 0; i < BLOCKS; i++) {
        while (i - atomic_load_explicit(&consumed, memory_order_acquire) == SLOTS) {
            sched_yield();
        }
        uint64_t *block = malloc(WORDS * sizeof *block);
        CLAIM(block != NULL);
        for (unsigned word = 0; word < WORDS; word++) {
            block[word] = i * 0x9e3779b97f4a7c15u + word;
        }
        ring[i % SLOTS] = block;
        atomic_store_explicit(&produced, i + 1, memory_order_release);
        if (i == BLOCKS / 10) {
            settled = claim_rss_bytes();
        }
    }
    CLAIM(pthread_join(consumer, NULL) == 0);
    CLAIM(claim_rss_bytes() < settled + ((size_t)4 << 20));
    return 0;
}
