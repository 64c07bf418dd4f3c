// expect: SIGSEGV
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: a freed large block cannot be read while it is in quarantine. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(409600));
    *(volatile char *)block = 1;
    free(block);
    CLAIM(*(volatile char *)claim_hide(block) == 1);
    return 0;
}
