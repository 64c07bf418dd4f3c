// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* free leaves errno alone for blocks of every size regime, aligned ones and NULL. */
#include "claim.h"

#include <pthread.h>

static const size_t sizes[] = {0,      8,      100,     1024,    5000,     40000,
                               100000, 300000, 1000000, 5000000, 20000000, 100000000};

static void free_with_errno(void *block) {
    errno = 4711;
    free(block);
    CLAIM(errno == 4711);
}

static void *free_in_thread(void *block) {
    free_with_errno(block);
    return NULL;
}

int main(void) {
    free_with_errno(NULL);
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        void *local = malloc(sizes[i]);
        void *remote = malloc(sizes[i]);
        void *aligned = aligned_alloc(8192, sizes[i]);
        CLAIM(local != NULL && remote != NULL && aligned != NULL);
        free_with_errno(local);
        free_with_errno(aligned);
        pthread_t thread;
        CLAIM(pthread_create(&thread, NULL, free_in_thread, remote) == 0);
        CLAIM(pthread_join(thread, NULL) == 0);
    }
    for (int i = 0; i < 100000; i++) {
        free_with_errno(claim_hide(malloc((size_t)i % 3000)));
    }
    return 0;
}
