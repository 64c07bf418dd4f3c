// expect: SIGABRT "poolshim: double free of 0x"
/* SPDX-License-Identifier: MIT */
/* A large block freed twice is named by the second free. */
#include "claim.h"

int main(void) {
    void *block = claim_hide(malloc(300000));
    free(block);
    free(claim_hide(block));
    return 0;
}
