// expect: exit 0
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* Sizes, alignment, contents, zeroes and errno of guarded blocks are malloc's. */
#include "guarded.h"

static void sizes_and_contents(void) {
    for (size_t size = 0; size <= 20000; size += size < 300 ? 1 : 97) {
        unsigned char *block = claim_hide(malloc(size));
        CLAIM(claim_is_aligned(block, size > 8 ? 16 : 8));
        CLAIM(size > 16384 || guarded_is(block, size));
        claim_fill(block, size, 1);
        block = claim_hide(realloc(block, size + 77));
        CLAIM(block != NULL && claim_is_filled(block, size, 1));
        claim_fill(block, size + 77, 2);
        block = claim_hide(realloc(block, size / 2 + 1));
        CLAIM(block != NULL && claim_is_filled(block, size / 2 + 1, 2));
        free(block);
    }
}

static void zeroes(void) {
    for (size_t i = 0; i < 2000; i++) {
        size_t size = i * 7 % 17000 + 1;
        unsigned char *block = claim_hide(calloc(1, size));
        CLAIM(claim_is_zero(block, size));
        memset(block, 0xff, size);
        free(block);
    }
}

static void alignments(void) {
    for (size_t align = 16; align <= 65536; align *= 2) {
        for (size_t size = 1; size <= 40000; size = size * 3 + 1) {
            for (int i = 0; i < 4; i++) { /* on either side */
                void *block = NULL;
                CLAIM(posix_memalign(&block, align, size) == 0);
                CLAIM(claim_is_aligned(block, align) && malloc_usable_size(block) >= size);
                memset(block, 1, malloc_usable_size(block));
                free(block);
            }
        }
    }
}

int main(void) {
    errno = 4711;
    free(claim_hide(malloc(63)));
    CLAIM(errno == 4711);
    sizes_and_contents();
    zeroes();
    alignments();
    return 0;
}
