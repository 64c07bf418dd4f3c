// expect: SIGABRT "poolshim: double free of 0x"
/* SPDX-License-Identifier: MIT */
/* A block that another thread has freed is named by its owner's free, with others in between. */
#include "claim.h"

#include <pthread.h>
#include <stdlib.h>

static void *free_all(void *blocks) {
    for (int i = 0; i < 3; i++) {
        free(((void **)blocks)[i]);
    }
    return NULL;
}

int main(void) {
    void *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = claim_hide(malloc(40));
    }
    pthread_t thread;
    CLAIM(pthread_create(&thread, NULL, free_all, blocks) == 0);
    CLAIM(pthread_join(thread, NULL) == 0);
    free(claim_hide(malloc(40)));
    free(claim_hide(blocks[1]));
    return 0;
}
