// expect: exit 0
// lib: malloc_wrapper.c
/* SPDX-License-Identifier: MIT */
/*
 * Every allocating call of libc, and each result through each call that takes a block, in several
 * threads. tests/shim/test_neighbours.py runs it with other libraries preloaded beside the shim.
 */
#include "claim.h"

#include <malloc.h>
#include <pthread.h>

#define WAYS 8
#define THREADS 4

static void *make(unsigned way, size_t size) {
    void *block = NULL;
    switch (way) {
    case 0:
        return malloc(size);
    case 1:
        return calloc(size, 1);
    case 2:
        return realloc(NULL, size);
    case 3:
        return reallocarray(NULL, 1, size);
    case 4:
        return posix_memalign(&block, 64, size) == 0 ? block : NULL;
    case 5:
        return aligned_alloc(32, (size + 31) / 32 * 32);
    case 6:
        return memalign(4096, size);
    default:
        return size < 100000 ? strndup("", size) : valloc(size);
    }
}

static void *use(void *argument) {
    unsigned self = (unsigned)(uintptr_t)argument;
    for (unsigned i = 0; i < 4000; i++) {
        size_t size = i % 100 == 0 ? i * 211u + 4096 : i * 13 % 3000 + 1;
        unsigned way = i % WAYS;
        unsigned char *block = make(way, size);
        CLAIM(block != NULL);
        size_t held = way == 7 && size < 100000 ? 1 : size;
        claim_fill(block, held, self);
        CLAIM(malloc_usable_size(block) >= held);
        size_t grown = held * (i % 3 + 1) + i % 7;
        block = i % 2 == 0 ? realloc(block, grown) : reallocarray(block, grown, 1);
        CLAIM(block != NULL && claim_is_filled(block, held, self));
        free(block);
    }
    return NULL;
}

int main(void) {
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++) {
        CLAIM(pthread_create(&threads[i], NULL, use, (void *)(uintptr_t)(i + 1)) == 0);
    }
    for (unsigned i = 0; i < THREADS; i++) {
        CLAIM(pthread_join(threads[i], NULL) == 0);
    }
    use(NULL);
    return 0;
}
