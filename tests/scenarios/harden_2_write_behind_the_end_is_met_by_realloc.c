// expect: SIGABRT "poolshim: write behind the end of 0x"
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: realloc checks the canary, too. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(64));
    *(char *)claim_hide(block + 64) = 'x';
    CLAIM(realloc(block, 60) == NULL);
    return 0;
}
