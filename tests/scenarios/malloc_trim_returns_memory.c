// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * malloc_trim(0) gives freed memory of every size back at once, says so by returning 1, leaves
 * live blocks alone, and returns 0 when nothing was left to give.
 */
#include "claim.h"

#include <malloc.h>

#define TOTAL ((size_t)256 << 20)

static void check(size_t size) {
    size_t count = TOTAL / size;
    void **blocks = malloc(count * sizeof *blocks);
    CLAIM(blocks != NULL);
    malloc_trim(0);
    size_t before = claim_rss_bytes();
    for (size_t i = 0; i < count; i++) {
        blocks[i] = malloc(size);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
    CLAIM(claim_rss_bytes() > before + TOTAL / 2);
    claim_fill(blocks[count / 2], size, 77);
    for (size_t i = 0; i < count; i++) {
        if (i != count / 2) {
            free(blocks[i]);
        }
    }
    int gave = malloc_trim(0);
    size_t after = claim_rss_bytes();
    CLAIM(after < before + ((size_t)24 << 20) + count * sizeof *blocks);
    CLAIM(claim_is_filled(blocks[count / 2], size, 77));
    CLAIM(gave == 1 || size > 100000); /* large blocks may be released before the call */
    free(blocks[count / 2]);
    free(blocks);
    malloc_trim(0);
    CLAIM(malloc_trim(0) == 0);
}

int main(void) {
    check(64);
    check(1000);
    check(30000);
    check(200000);
    check((size_t)8 << 20);
    return 0;
}
