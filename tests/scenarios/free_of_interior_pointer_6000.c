// expect: SIGABRT "poolshim: free of interior pointer 0x" "(size class 6144, thread "
/* SPDX-License-Identifier: MIT */
/* free of an address inside of a block of 6000 bytes, of which a span has ten, is named. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(6000));
    free(claim_hide(block + 4096));
    return 0;
}
