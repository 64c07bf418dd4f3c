// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Threads are cancelled between allocations, their clean-up handlers free their blocks, and the
 * heap remains consistent and bounded.
 */
#include "claim.h"

#include <pthread.h>

#define HELD 50

struct holder {
    unsigned char *blocks[HELD];
};

static void give_back(void *argument) {
    struct holder *holder = argument;
    for (int i = 0; i < HELD; i++) {
        if (holder->blocks[i] != NULL) {
            CLAIM(holder->blocks[i][0] == i);
            free(holder->blocks[i]);
        }
    }
    free(holder);
}

static void *allocate_until_cancelled(void *unused) {
    (void)unused;
    struct holder *holder = calloc(1, sizeof *holder);
    CLAIM(holder != NULL);
    pthread_cleanup_push(give_back, holder);
    for (unsigned i = 0;; i++) {
        unsigned slot = i % HELD;
        free(holder->blocks[slot]);
        holder->blocks[slot] = malloc(i * 37 % 9000 + 1);
        CLAIM(holder->blocks[slot] != NULL);
        holder->blocks[slot][0] = (unsigned char)slot;
        pthread_testcancel();
    }
    pthread_cleanup_pop(1);
    return NULL;
}

static void cancel_some(void) {
    pthread_t threads[3];
    for (int i = 0; i < 3; i++) {
        CLAIM(pthread_create(&threads[i], NULL, allocate_until_cancelled, NULL) == 0);
    }
    for (int i = 0; i < 3; i++) {
        CLAIM(pthread_cancel(threads[i]) == 0);
        void *result = NULL;
        CLAIM(pthread_join(threads[i], &result) == 0);
        CLAIM(result == PTHREAD_CANCELED);
    }
}

int main(void) {
    for (int round = 0; round < 30; round++) {
        cancel_some();
    }
    size_t before = claim_rss_bytes();
    for (int round = 0; round < 120; round++) {
        cancel_some();
    }
    CLAIM(claim_rss_bytes() < before + ((size_t)8 << 20));
    return 0;
}
