// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Blocks of gigabytes cost address space only: malloc, calloc (known zeroes), growth and shrinkage
 * by realloc preserve contents without touching or copying what the program never touched.
 */
#include "claim.h"

#include <malloc.h>

#define GIB ((size_t)1 << 30)
#define RSS_MAX ((size_t)48 << 20)

static void mark(char *block, size_t size) {
    block[0] = 'a';
    block[size / 2] = 'b';
    block[size - 1] = 'c';
}

int main(void) {
    size_t before = claim_rss_bytes();
    char *block = malloc(4 * GIB);
    CLAIM(block != NULL);
    CLAIM(malloc_usable_size(block) >= 4 * GIB);
    mark(block, 4 * GIB);
    block = realloc(block, 6 * GIB);
    CLAIM(block != NULL);
    CLAIM(block[0] == 'a' && block[2 * GIB] == 'b' && block[4 * GIB - 1] == 'c');
    CLAIM(claim_rss_bytes() < before + RSS_MAX);
    block = realloc(block, 3 * GIB);
    CLAIM(block != NULL && block[0] == 'a' && block[2 * GIB] == 'b');
    free(block);

    for (int round = 0; round < 5; round++) {
        char *zeroes = calloc(4, GIB);
        CLAIM(zeroes != NULL);
        CLAIM(zeroes[0] == 0 && zeroes[2 * GIB] == 0 && zeroes[4 * GIB - 1] == 0);
        mark(zeroes, 4 * GIB);
        CLAIM(claim_rss_bytes() < before + RSS_MAX);
        free(zeroes);
    }
    return 0;
}
