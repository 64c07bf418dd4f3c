// expect: exit 0
// env: POOLSHIM_STATS=/dev/null POOLSHIM_DUMP_SIGNAL=USR2
// env: POOLSHIM_PROFILE=/dev/null POOLSHIM_PROFILE_PEAK=1 POOLSHIM_PROFILE_INTERVAL=4KiB
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * A thread that was cancelled goes on through malloc that writes a profile, a report at a signal
 * and malloc_info: none of them is a point of cancellation, at which it would end inside of them.
 */
#include "claim.h"

#include <malloc.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>

#define BLOCKS 200
#define BLOCK_BYTES 40000

static bool x_is_cancelled;
static const char *x_reached = "the thread's start";

static void *use_when_cancelled(void *null_stream) {
    void *blocks[BLOCKS];
    while (!__atomic_load_n(&x_is_cancelled, __ATOMIC_ACQUIRE)) {
    }
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    x_reached = "blocks";
    (void)raise(SIGUSR2);
    x_reached = "a report at a signal";
    (void)malloc_info(0, null_stream);
    x_reached = "malloc_info";
    malloc_stats();
    x_reached = NULL;
    pthread_testcancel();
    return NULL;
}

int main(void) {
    pthread_t thread;
    void *result;
    FILE *stream = fopen("/dev/null", "w");
    CLAIM(stream != NULL);
    setvbuf(stream, NULL, _IONBF, 0); /* each line is a write */
    CLAIM(pthread_create(&thread, NULL, use_when_cancelled, stream) == 0);
    CLAIM(pthread_cancel(thread) == 0);
    __atomic_store_n(&x_is_cancelled, true, __ATOMIC_RELEASE);
    CLAIM(pthread_join(thread, &result) == 0);
    CLAIM(result == PTHREAD_CANCELED);
    if (x_reached != NULL) {
        fprintf(stderr, "the thread has ended after: %s\n", x_reached);
    }
    return x_reached != NULL;
}
