// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Two hundred idle threads that have allocated three sizes each, once, and freed them, cost at most
 * 64 KiB of private memory per thread, the thread's own stack pages included (glibc 10, jemalloc
 * 51).
 */
#include "claim.h"

#include <pthread.h>

#define THREADS 200
#define STACK_BYTES ((size_t)64 << 10)
#define KIB_PER_THREAD 64

static pthread_barrier_t all_idle;
static pthread_barrier_t measured;

static void *touch_and_idle(void *unused) {
    (void)unused;
    static const size_t sizes[] = {24, 200, 1500};
    for (int i = 0; i < 3; i++) {
        char *block = malloc(sizes[i]);
        CLAIM(block != NULL);
        block[0] = 1;
        free(claim_hide(block));
    }
    pthread_barrier_wait(&all_idle);
    pthread_barrier_wait(&measured);
    return NULL;
}

static long private_dirty_kib(void) {
    static char text[8192];
    int file = open("/proc/self/smaps_rollup", O_RDONLY | O_CLOEXEC);
    if (file < 0) {
        claim_skip("this kernel has no smaps_rollup");
    }
    ssize_t length = read(file, text, sizeof text - 1);
    CLAIM(length > 0);
    close(file);
    text[length] = '\0';
    const char *line = strstr(text, "Private_Dirty:");
    CLAIM(line != NULL);
    return strtol(line + strlen("Private_Dirty:"), NULL, 10);
}

int main(void) {
    static pthread_t threads[THREADS];
    pthread_attr_t attributes;
    CLAIM(pthread_attr_init(&attributes) == 0);
    size_t least_bytes = (size_t)sysconf(_SC_THREAD_STACK_MIN); /* 128 KiB on 64-bit ARM */
    size_t stack_bytes = least_bytes > STACK_BYTES ? least_bytes : STACK_BYTES;
    CLAIM(pthread_attr_setstacksize(&attributes, stack_bytes) == 0);
    CLAIM(pthread_barrier_init(&all_idle, NULL, THREADS + 1) == 0);
    CLAIM(pthread_barrier_init(&measured, NULL, THREADS + 1) == 0);
    free(claim_hide(malloc(100)));
    long before = private_dirty_kib();
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], &attributes, touch_and_idle, NULL) == 0);
    }
    pthread_barrier_wait(&all_idle);
    long after = private_dirty_kib();
    pthread_barrier_wait(&measured);
    for (int i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    dprintf(2, "%.1f KiB per thread\n", (double)(after - before) / THREADS);
    CLAIM(after - before <= (long)THREADS * KIB_PER_THREAD);
    return 0;
}
