// expect: exit 0
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: fresh blocks do not come in the order of their addresses. */
#include "claim.h"

int main(void) {
    char *last = NULL;
    int falls = 0;
    for (int i = 0; i < 200; i++) {
        char *block = claim_hide(malloc(64));
        falls += block < last;
        last = block;
    }
    CLAIM(falls > 20);
    return 0;
}
