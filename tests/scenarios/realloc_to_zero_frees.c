// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* realloc(p, 0) frees the block and returns NULL, as in glibc: a million of them grow nothing. */
#include "claim.h"

int main(void) {
    for (int i = 0; i < 2000; i++) {
        CLAIM(realloc(claim_hide(malloc(10000)), claim_size(0)) == NULL);
    }
    size_t before = claim_rss_bytes();
    for (int i = 0; i < 1000000; i++) {
        char *block = claim_hide(malloc(200));
        CLAIM(block != NULL);
        block[0] = 1;
        CLAIM(realloc(block, claim_size(0)) == NULL);
    }
    for (int i = 0; i < 2000; i++) {
        char *block = claim_hide(malloc(300000));
        CLAIM(block != NULL);
        block[0] = 1;
        CLAIM(realloc(block, claim_size(0)) == NULL);
    }
    CLAIM(claim_rss_bytes() < before + (8 << 20));
    return 0;
}
