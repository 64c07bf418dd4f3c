// expect: SIGABRT "poolshim: write after free to 0x"
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: a byte written into the middle of a free block is found before it has an owner again. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(200));
    free(block);
    *(char *)claim_hide(block + 100) = 'x';
    for (int i = 0; i < 10000; i++) {
        free(claim_hide(malloc(200)));
    }
    return 0;
}
