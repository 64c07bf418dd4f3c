// expect: SIGSEGV "poolshim: use after free (write) at 0x" "touched by thread"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* Threads that touch a freed block at once: one reports, none hangs. */
#include "guarded.h"

#include <pthread.h>

enum { THREADS = 8 };

static char *block;
static pthread_barrier_t barrier;

static void *touch(void *argument) {
    (void)argument;
    pthread_barrier_wait(&barrier);
    block[1] = 1;
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    block = allocate_here(63, GUARDED_BEGIN);
    CLAIM(pthread_barrier_init(&barrier, NULL, THREADS) == 0);
    free_here(block);
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, touch, NULL) == 0);
    }
    for (size_t i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    return 0;
}
