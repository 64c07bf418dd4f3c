// expect: SIGABRT "poolshim: double free of 0x"
/* SPDX-License-Identifier: MIT */
/* A block that was freed twice, with others in between, is named by the second free. */
#include "claim.h"

int main(void) {
    void *blocks[4];
    for (int i = 0; i < 4; i++) {
        blocks[i] = claim_hide(malloc(40));
    }
    free(blocks[0]);
    free(blocks[1]);
    free(claim_hide(blocks[0]));
    void *first = claim_hide(malloc(40));
    for (int i = 0; i < 3; i++) {
        CLAIM(claim_hide(malloc(40)) != first);
    }
    return 0;
}
