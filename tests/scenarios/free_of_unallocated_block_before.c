// expect: SIGABRT "poolshim: free of interior pointer 0x"
/* SPDX-License-Identifier: MIT */
/* A free of the place before the oldest block, where none was ever allocated. */
#include "claim.h"

#include <stdlib.h>

int main(void) {
    char *block = claim_hide(malloc(64));
    free(claim_hide(block + (-64)));
    return 0;
}
