// expect: SIGABRT "poolshim: realloc of free block 0x"
/* SPDX-License-Identifier: MIT */
/* realloc of a freed block of 100 KiB is named. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(100000));
    free(block);
    CLAIM(realloc(claim_hide(block), 200000) == NULL);
    return 0;
}
