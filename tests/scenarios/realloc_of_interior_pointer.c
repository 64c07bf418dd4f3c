// expect: SIGABRT "poolshim: realloc of interior pointer 0x"
/* SPDX-License-Identifier: MIT */
/* realloc of an address inside of a block is named and stops the program. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(64));
    CLAIM(realloc(claim_hide(block + 16), 100) == NULL);
    return 0;
}
