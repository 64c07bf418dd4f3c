/* SPDX-License-Identifier: MIT */
/*
 * A library whose constructor registers fork handlers before anything has been allocated: they are
 * older than any allocator's. The handlers take the library's mutex, allocate and free.
 */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define BLOCK_BYTES 100000

pthread_mutex_t early_handlers_mutex = PTHREAD_MUTEX_INITIALIZER;

static void allocate(void) {
    for (size_t bytes = 24; bytes <= BLOCK_BYTES; bytes = bytes * 3 + 1) {
        char *block = malloc(bytes);
        if (block == NULL) {
            _exit(3);
        }
        *(volatile char *)block = 1;
        free(block);
    }
}

void early_handlers_work(void) {
    pthread_mutex_lock(&early_handlers_mutex);
    allocate();
    pthread_mutex_unlock(&early_handlers_mutex);
}

static void prepare(void) {
    pthread_mutex_lock(&early_handlers_mutex);
    allocate();
}

static void after(void) {
    allocate();
    pthread_mutex_unlock(&early_handlers_mutex);
}

__attribute__((constructor(101))) static void library_loaded(void) {
    (void)pthread_atfork(prepare, after, after);
}
