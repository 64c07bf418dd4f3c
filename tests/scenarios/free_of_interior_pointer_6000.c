// expect: SIGABRT "poolshim: free of interior pointer 0x" "(size class 6144, thread "
/* SPDX-License-Identifier: MIT */
/* Reports the free of an address inside of a block of 6000 bytes, ten of which fill a span. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(6000));
    free(claim_hide(block + 4096));
    return 0;
}
