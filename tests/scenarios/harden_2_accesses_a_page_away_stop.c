// expect: SIGSEGV
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: nothing can be read one page after a small block, if the program has few. */
#include "claim.h"

#include <stdlib.h>

int main(void) {
    for (int i = 0; i < 20; i++) {
        CLAIM(claim_hide(malloc(100)) != NULL);
    }
    return ((volatile char *)claim_hide(malloc(100)))[4096 + 100];
}
