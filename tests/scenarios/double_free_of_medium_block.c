// expect: SIGABRT "poolshim: double free of 0x"
/* SPDX-License-Identifier: MIT */
/* The second free of a block of 20 KiB is reported while the thread caches the block. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(20000));
    free(block);
    free(claim_hide(block));
    return 0;
}
