// expect: SIGABRT "poolshim: double free of 0x" "(size class 64, thread "
/* SPDX-License-Identifier: MIT */
/* A block freed twice in a row is named by the second free. */
#include "claim.h"

int main(void) {
    void *block = claim_hide(malloc(60));
    free(block);
    free(claim_hide(block));
    return 0;
}
