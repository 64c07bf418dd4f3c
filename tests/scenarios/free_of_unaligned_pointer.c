// expect: SIGABRT "poolshim: free of interior pointer 0x" "(size class 8, thread "
/* SPDX-License-Identifier: MIT */
/* free of an address that is no multiple of 8 is named and stops the program. */
#include "claim.h"

int main(void) {
    char *block = claim_hide(malloc(8));
    free(claim_hide(block + 1));
    return 0;
}
