// expect: exit 0
// marks: slow
/* SPDX-License-Identifier: MIT */
/*
 * Random replacement of mixed sizes at a constant number of live bytes: resident memory settles
 * and does not creep, over twenty times the working set, with threads coming and going.
 */
#include "claim.h"

#include <pthread.h>

#define SLOTS 20000
#define STEPS 200000
#define ROUNDS 20

static char *slots[SLOTS];
static size_t sizes[SLOTS];
static size_t live_bytes;
static unsigned random_state = 1;

static unsigned next_random(void) {
    random_state = random_state * 1664525u + 1013904223u;
    return random_state >> 8;
}

static size_t random_size(void) {
    unsigned shift = next_random() % 12;
    return ((size_t)8 << shift) + next_random() % ((size_t)8 << shift);
}

static void *churn(void *unused) {
    (void)unused;
    for (int step = 0; step < STEPS; step++) {
        unsigned slot = next_random() % SLOTS;
        if (slots[slot] != NULL) {
            CLAIM(slots[slot][0] == (char)slot);
            live_bytes -= sizes[slot];
            free(slots[slot]);
        }
        sizes[slot] = random_size();
        slots[slot] = malloc(sizes[slot]);
        CLAIM(slots[slot] != NULL);
        memset(slots[slot], (int)slot, sizes[slot]);
        live_bytes += sizes[slot];
    }
    return NULL;
}

int main(void) {
    size_t settled = 0;
    for (int round = 0; round < ROUNDS; round++) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, churn, NULL) == 0);
        CLAIM(pthread_join(thread, NULL) == 0);
        size_t rss = claim_rss_bytes();
        if (round == 4) {
            settled = rss;
        }
        if (round > 4) {
            CLAIM(rss < settled + settled / 4 + ((size_t)4 << 20));
        }
    }
    dprintf(2, "resident %zu KiB for %zu KiB live\n", claim_rss_bytes() >> 10, live_bytes >> 10);
    CLAIM(claim_rss_bytes() < live_bytes * 2 + ((size_t)8 << 20));
    return 0;
}
