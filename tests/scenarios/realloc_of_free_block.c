// expect: SIGABRT "poolshim: realloc of free block 0x"
/* SPDX-License-Identifier: MIT */
/* realloc of the block that was freed last is named and stops the program. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(64));
    free(block);
    CLAIM(realloc(claim_hide(block), 100) == NULL);
    return 0;
}
