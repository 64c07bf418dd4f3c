// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* A block grown step by step from 1 byte to 200 MiB, at three rates: every byte is preserved. */
#include "claim.h"

#include <malloc.h>

#define LARGEST ((size_t)200 << 20)

/* Position-dependent word; every eighth byte of the block is enough to find a lost page. */
static void fill_words(uint64_t *words, size_t from, size_t to, uint64_t seed) {
    for (size_t i = from; i < to; i++) {
        words[i] = (i + 1) * 0x9e3779b97f4a7c15u ^ seed;
    }
}

static void check_words(const uint64_t *words, size_t count, uint64_t seed) {
    for (size_t i = 0; i < count; i++) {
        CLAIM(words[i] == ((i + 1) * 0x9e3779b97f4a7c15u ^ seed));
    }
}

static void grow(size_t numerator, size_t denominator, size_t largest, uint64_t seed) {
    size_t size = 1;
    size_t filled = 0;
    void *block = malloc(size);
    void *neighbour = NULL;
    CLAIM(block != NULL);
    while (size < largest) {
        size = size * numerator / denominator + 8;
        block = realloc(block, size);
        CLAIM(block != NULL);
        CLAIM(claim_is_aligned(block, size <= 8 ? 8 : 16));
        CLAIM(malloc_usable_size(block) >= size);
        check_words(block, filled, seed);
        fill_words(block, filled, size / 8, seed);
        filled = size / 8;
        free(neighbour); /* another block takes the place after the block */
        neighbour = malloc(size / 3 + 1);
        CLAIM(neighbour != NULL);
        ((char *)neighbour)[size / 3] = 1;
    }
    free(neighbour);
    free(block);
}

int main(void) {
    grow(2, 1, LARGEST, 1);
    grow(3, 2, LARGEST, 2);
    grow(11, 10, LARGEST / 8, 3);
    return 0;
}
