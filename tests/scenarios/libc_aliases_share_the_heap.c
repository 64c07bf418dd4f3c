// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* Blocks from __libc_malloc and its kin and blocks from malloc are one heap: either side frees. */
#include "claim.h"

#include <malloc.h>

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);
void *__libc_memalign(size_t alignment, size_t size);
void *__libc_valloc(size_t size);
void *__libc_pvalloc(size_t size);
void __libc_free(void *block);

static void check(void *block, size_t size, int by_alias) {
    CLAIM(block != NULL);
    CLAIM(malloc_usable_size(block) >= size);
    claim_fill(block, size, 3);
    CLAIM(claim_is_filled(block, size, 3));
    if (by_alias) {
        __libc_free(block);
    } else {
        free(block);
    }
}

int main(void) {
    for (size_t size = 1; size < (size_t)16 << 20; size = size * 5 + 3) {
        for (int by_alias = 0; by_alias < 2; by_alias++) {
            check(__libc_malloc(size), size, by_alias);
            check(malloc(size), size, by_alias);
            check(__libc_realloc(malloc(size / 2), size), size, by_alias);
            check(realloc(__libc_malloc(size / 2), size), size, by_alias);
            void *zeroes = __libc_calloc(1, size);
            CLAIM(zeroes != NULL && claim_is_zero(zeroes, size));
            check(zeroes, size, by_alias);
            void *aligned = __libc_memalign(1024, size);
            CLAIM(claim_is_aligned(aligned, 1024));
            check(aligned, size, by_alias);
            check(__libc_valloc(size), size, by_alias);
            check(__libc_pvalloc(size), size, by_alias);
        }
    }
    return 0;
}
