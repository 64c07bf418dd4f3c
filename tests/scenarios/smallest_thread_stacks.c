// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* Threads with the smallest stack that POSIX allows use the heap in all regimes, and end. */
#include "claim.h"
#include "heap_use.h"

#include <limits.h>
#include <pthread.h>

static void *use_on_small_stack(void *unused) {
    (void)unused;
    CLAIM(heap_use());
    return NULL;
}

int main(void) {
    pthread_attr_t attributes;
    CLAIM(pthread_attr_init(&attributes) == 0);
    CLAIM(pthread_attr_setstacksize(&attributes, (size_t)sysconf(_SC_THREAD_STACK_MIN)) == 0);
    for (int i = 0; i < 50; i++) {
        pthread_t threads[4];
        for (int j = 0; j < 4; j++) {
            CLAIM(pthread_create(&threads[j], &attributes, use_on_small_stack, NULL) == 0);
        }
        for (int j = 0; j < 4; j++) {
            CLAIM(pthread_join(threads[j], NULL) == 0);
        }
    }
    return 0;
}
