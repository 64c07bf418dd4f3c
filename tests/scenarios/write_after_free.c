// expect: SIGABRT "poolshim: double free of, or write after free to 0x"
/* SPDX-License-Identifier: MIT */
/* A pointer written into a free block is not followed. */
#include "claim.h"

int main(void) {
    static char target[256];
    void **block = claim_hide(malloc(128));
    free(block);
    block[0] = target;
    CLAIM(claim_hide(malloc(128)) != (void *)target);
    CLAIM(claim_hide(malloc(128)) != (void *)target);
    return 0;
}
