// expect: SIGABRT "poolshim: free of interior pointer 0x"
/* SPDX-License-Identifier: MIT */
/* free of the second page of a block of 20 KiB is named. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(20000));
    free(claim_hide(block + 4096));
    return 0;
}
