// expect: SIGABRT "poolshim: double free of 0x"
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: a block that another thread has freed is free. */
#include "claim.h"

#include <pthread.h>

static void *free_it(void *block) {
    free(block);
    return NULL;
}

int main(void) {
    void *block = claim_hide(malloc(100));
    pthread_t thread;
    CLAIM(pthread_create(&thread, NULL, free_it, block) == 0);
    CLAIM(pthread_join(thread, NULL) == 0);
    free(claim_hide(block));
    return 0;
}
