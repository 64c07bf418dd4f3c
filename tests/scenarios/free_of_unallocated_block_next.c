// expect: SIGABRT "poolshim: double free of 0x"
/* SPDX-License-Identifier: MIT */
/* A free of the place after the newest block, where none was ever allocated. */
#include "claim.h"

#include <stdlib.h>

int main(void) {
    char *block = claim_hide(malloc(64));
    free(claim_hide(block + (64)));
    return 0;
}
