// expect: SIGABRT "poolshim: double free of 0x"
/* SPDX-License-Identifier: MIT */
/* And when its pages are free, between others that are in use. */
#include "claim.h"

#include <malloc.h>

int main(void) {
    char *blocks[3];
    for (int i = 0; i < 3; i++) {
        blocks[i] = claim_hide(malloc(20000));
    }
    free(blocks[1]);
    malloc_trim(0);
    free(claim_hide(blocks[1]));
    return 0;
}
