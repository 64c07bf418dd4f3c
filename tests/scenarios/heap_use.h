/* SPDX-License-Identifier: MIT */
/*
 * A short, checked use of the whole heap for places where only "it works here" is the claim:
 * resolvers, constructors, destructors, fork children. Needs no libc start-up of its own: calls
 * nothing but the allocator. Included by scenarios and by their libraries; no locks.
 */
#ifndef PS_TESTS_HEAP_USE_H
#define PS_TESTS_HEAP_USE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* Sizes of all regimes: smallest, small, page runs, own mapping. */
#define HEAP_USE_SIZES                                                                             \
    { 1, 8, 16, 100, 1000, 5000, 40000, 200000, 5000000 }
#define HEAP_USE_SIZE_COUNT 9

static inline void heap_use_write(unsigned char *block, size_t size, unsigned char value) {
    volatile unsigned char *bytes = block;
    bytes[0] = value;
    bytes[size / 2] = value;
    bytes[size - 1] = value;
}

static inline int heap_use_holds(const unsigned char *block, size_t size, unsigned char value) {
    const volatile unsigned char *bytes = block;
    return bytes[0] == value && bytes[size / 2] == value && bytes[size - 1] == value;
}

/* malloc, calloc, realloc, an aligned call and free in every size regime; 1 when all are right. */
static inline int heap_use(void) {
    static const size_t sizes[HEAP_USE_SIZE_COUNT] = HEAP_USE_SIZES;
    unsigned char *blocks[HEAP_USE_SIZE_COUNT];
    for (unsigned i = 0; i < HEAP_USE_SIZE_COUNT; i++) {
        blocks[i] = (unsigned char *)malloc(sizes[i]);
        if (blocks[i] == NULL) {
            return 0;
        }
        heap_use_write(blocks[i], sizes[i], (unsigned char)(i + 1));
    }
    for (unsigned i = 0; i < HEAP_USE_SIZE_COUNT; i++) {
        unsigned char *zeroes = (unsigned char *)calloc(1, sizes[i]);
        if (zeroes == NULL || !heap_use_holds(zeroes, sizes[i], 0)) {
            return 0;
        }
        void *aligned = NULL;
        if (posix_memalign(&aligned, 256, sizes[i]) != 0 || ((uintptr_t)aligned & 255) != 0) {
            return 0;
        }
        heap_use_write(zeroes, sizes[i], 0xcc);
        heap_use_write((unsigned char *)aligned, sizes[i], 0xdd);
        free(zeroes);
        free(aligned);
    }
    for (unsigned i = 0; i < HEAP_USE_SIZE_COUNT; i++) {
        if (!heap_use_holds(blocks[i], sizes[i], (unsigned char)(i + 1))) {
            return 0;
        }
        blocks[i] = (unsigned char *)realloc(blocks[i], sizes[i] * 2);
        if (blocks[i] == NULL || blocks[i][0] != (unsigned char)(i + 1)) {
            return 0;
        }
        free(blocks[i]);
    }
    return 1;
}

#endif
