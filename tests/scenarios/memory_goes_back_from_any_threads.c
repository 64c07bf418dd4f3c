// expect: exit 0
// env: POOLSHIM_PURGE_DELAY_MS=100
// libc: glibc
/* SPDX-License-Identifier: MIT */
/*
 * Threads that were created by thrd_create, and by libc's pthread_create without passing the
 * library's, free all that they had and block: the memory goes back, as that of threads created by
 * pthread_create does.
 */
#include "silence.h"

#include <dlfcn.h>
#include <threads.h>

#define THREADS 4

typedef int create(pthread_t *thread, const pthread_attr_t *attributes, void *(*routine)(void *),
                   void *argument);

static void *blocks[THREADS][SILENCE_BLOCKS];
static pthread_barrier_t step;

static void *work(void *own_blocks) {
    silence_rise(own_blocks);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    silence_fall(own_blocks);
    pthread_barrier_wait(&step);
    pthread_barrier_wait(&step);
    return NULL;
}

static int work_in_c11(void *own_blocks) { return work(own_blocks) != NULL; }

int main(void) {
    void *libc = dlopen("libc.so.6", RTLD_NOW | RTLD_NOLOAD);
    CLAIM(libc != NULL);
    create *create_by_libc = (create *)dlsym(libc, "pthread_create");
    CLAIM(create_by_libc != NULL && create_by_libc != pthread_create);
    pthread_barrier_init(&step, NULL, THREADS + 1);
    for (int round = 0; round < 2; round++) {
        pthread_t threads[THREADS];
        size_t before = claim_rss_bytes();
        for (int i = 0; i < THREADS; i++) {
            CLAIM(round == 0 ? thrd_create(&threads[i], work_in_c11, blocks[i]) == thrd_success
                             : create_by_libc(&threads[i], NULL, work, blocks[i]) == 0);
        }
        pthread_barrier_wait(&step);
        CLAIM(claim_rss_bytes() > THREADS * SILENCE_PEAK_BYTES);
        pthread_barrier_wait(&step);
        pthread_barrier_wait(&step);
        silence_await(before + 3 * SILENCE_LEFT_BYTES);
        pthread_barrier_wait(&step);
        for (int i = 0; i < THREADS; i++) {
            CLAIM(pthread_join(threads[i], NULL) == 0);
        }
    }
    return 0;
}
