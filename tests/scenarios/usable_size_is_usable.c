// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * malloc_usable_size is at least the requested size, all of it may be written without touching a
 * neighbour, it does not change, and it is 0 for NULL.
 */
#include "claim.h"

#include <malloc.h>

#define LIVE 24

static void check(size_t size) {
    void *blocks[LIVE];
    size_t usable[LIVE];
    for (unsigned i = 0; i < LIVE; i++) {
        blocks[i] = malloc(size);
        CLAIM(blocks[i] != NULL);
        usable[i] = malloc_usable_size(blocks[i]);
        CLAIM(usable[i] >= size);
        claim_fill(blocks[i], usable[i], i);
    }
    for (unsigned i = 0; i < LIVE; i++) {
        CLAIM(malloc_usable_size(blocks[i]) == usable[i]);
        CLAIM(claim_is_filled(blocks[i], usable[i], i));
    }
    for (unsigned i = 0; i < LIVE; i++) {
        free(blocks[i]);
    }
}

int main(void) {
    CLAIM(malloc_usable_size(NULL) == 0);
    for (size_t size = 0; size <= 1100; size++) {
        check(size);
    }
    for (size_t size = 1100; size <= 400000; size += size / 6) {
        check(size);
    }
    check((size_t)1 << 20);
    check(((size_t)4 << 20) + 1);
    check(((size_t)5 << 20) - 1);
    return 0;
}
