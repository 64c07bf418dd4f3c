// expect: SIGSEGV
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: the page after a large block cannot be written to. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(409600));
    *(volatile char *)claim_hide(block + 409599) = 1;
    *(volatile char *)claim_hide(block + 409600) = 1;
    return 0;
}
