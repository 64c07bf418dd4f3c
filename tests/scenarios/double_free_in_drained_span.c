// expect: SIGABRT "poolshim: double free of 0x"
/* SPDX-License-Identifier: MIT */
/* The second free of a block is named when all that lay beside it has been freed meanwhile. */
#include "claim.h"

#include <stdlib.h>

#define BLOCKS 3000

int main(void) {
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = claim_hide(malloc(64));
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    free(claim_hide(blocks[1500]));
    return 0;
}
