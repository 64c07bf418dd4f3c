// expect: SIGABRT "poolshim: write after free to 0x"
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: a write after free that no allocation comes across is found when the program ends. */
#include "claim.h"

#include <stdlib.h>

int main(void) {
    char *block = claim_hide(malloc(100));
    free(claim_hide(malloc(100)));
    free(block);
    ((volatile char *)claim_hide(block))[50] = 'x';
    return 0;
}
