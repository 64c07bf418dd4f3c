// expect: SIGABRT "poolshim: double free of 0x"
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: a second free is named at once, whatever came between. */
#include "claim.h"

int main(void) {
    static void *blocks[500];
    for (int i = 0; i < 500; i++) {
        blocks[i] = claim_hide(malloc(40));
    }
    for (int i = 0; i < 500; i++) {
        free(blocks[i]);
    }
    free(claim_hide(blocks[3]));
    return 0;
}
