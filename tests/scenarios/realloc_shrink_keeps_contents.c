// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * realloc shrinks a block step by step from 64 MiB to 1 byte, preserves its remaining bytes, and
 * releases the memory: two hundred 4 MiB blocks shrunk to 100 bytes do not leave 800 MiB resident.
 */
#include "claim.h"

#include <malloc.h>

static void shrink_chain(void) {
    size_t size = (size_t)64 << 20;
    unsigned char *block = malloc(size);
    CLAIM(block != NULL);
    claim_fill(block, size, 9);
    while (size > 1) {
        size = size * 3 / 5;
        block = realloc(block, size);
        CLAIM(block != NULL);
        CLAIM(malloc_usable_size(block) >= size);
        CLAIM(claim_is_filled(block, size, 9));
    }
    free(block);
}

static void zigzag_chain(void) {
    size_t filled = 50;
    size_t size = 50;
    unsigned char *block = malloc(size);
    CLAIM(block != NULL);
    claim_fill(block, filled, 5);
    for (unsigned step = 0; step < 3000; step++) {
        size = (step * 2654435761u) % 300000 + 1;
        block = realloc(block, size);
        CLAIM(block != NULL);
        filled = filled < size ? filled : size;
        CLAIM(claim_is_filled(block, filled, 5));
        claim_fill(block, size, 5);
        filled = size;
    }
    free(block);
}

int main(void) {
    shrink_chain();
    zigzag_chain();
    size_t before = claim_rss_bytes();
    static void *blocks[200];
    for (int i = 0; i < 200; i++) {
        void *large = malloc((size_t)4 << 20);
        CLAIM(large != NULL);
        memset(large, 1, (size_t)4 << 20);
        blocks[i] = realloc(large, 100);
        CLAIM(blocks[i] != NULL && claim_is_zero(blocks[i], 100) == 0);
    }
    malloc_trim(0);
    CLAIM(claim_rss_bytes() < before + ((size_t)64 << 20));
    for (int i = 0; i < 200; i++) {
        free(blocks[i]);
    }
    return 0;
}
