// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* main leaves by pthread_exit; its thread frees main's blocks, starts threads, ends the process. */
#include "claim.h"
#include "heap_use.h"

#include <pthread.h>

#define BLOCKS 3000

static pthread_t main_thread;
static unsigned char *blocks[BLOCKS];

static void *use_in_thread(void *unused) {
    (void)unused;
    CLAIM(heap_use());
    return NULL;
}

static void *work_after_main(void *unused) {
    (void)unused;
    CLAIM(pthread_join(main_thread, NULL) == 0);
    for (unsigned i = 0; i < BLOCKS; i++) {
        CLAIM(claim_is_filled(blocks[i], i % 900 + 1, i));
        free(blocks[i]);
    }
    for (int round = 0; round < 20; round++) {
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, use_in_thread, NULL) == 0);
        CLAIM(heap_use());
        CLAIM(pthread_join(thread, NULL) == 0);
    }
    exit(0);
}

int main(void) {
    main_thread = pthread_self();
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(i % 900 + 1);
        CLAIM(blocks[i] != NULL);
        claim_fill(blocks[i], i % 900 + 1, i);
    }
    pthread_t thread;
    CLAIM(pthread_create(&thread, NULL, work_after_main, NULL) == 0);
    pthread_exit(NULL);
}
