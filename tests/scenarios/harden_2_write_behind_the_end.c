// expect: SIGABRT "poolshim: write behind the end of 0x"
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: free finds one byte written past the requested bytes. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(50));
    *(char *)claim_hide(block + 50) = 0;
    free(block);
    return 0;
}
