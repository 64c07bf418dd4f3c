// expect: SIGABRT "poolshim: free of interior pointer 0x"
/* SPDX-License-Identifier: MIT */
/* free of an address inside of a large block is named and stops the program. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(300000));
    free(claim_hide(block + 4096));
    return 0;
}
