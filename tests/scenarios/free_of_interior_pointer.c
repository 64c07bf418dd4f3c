// expect: SIGABRT "poolshim: free of interior pointer 0x" "(size class 256, thread "
/* SPDX-License-Identifier: MIT */
/* free of an address inside of a block is named and stops the program. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(256));
    free(claim_hide(block + 64));
    return 0;
}
