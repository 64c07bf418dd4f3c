// expect: SIGABRT "poolshim: double free of, or write after free to 0x"
/* SPDX-License-Identifier: MIT */
/* A pointer written into a free block of 6000 bytes is not followed. */
#include "claim.h"

int main(void) {
    static char target[256];
    void **block = claim_hide(malloc(6000));
    free(block);
    block[0] = target;
    CLAIM(claim_hide(malloc(6000)) != (void *)target);
    CLAIM(claim_hide(malloc(6000)) != (void *)target);
    return 0;
}
