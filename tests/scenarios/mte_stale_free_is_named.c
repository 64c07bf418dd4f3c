// expect: SIGABRT "poolshim: double free of 0x" "(size class 48, thread "
// env: POOLSHIM_HARDEN=mte
/* SPDX-License-Identifier: MIT */
/* A second free is found when the block has its next owner. */
#include "mte.h"

int main(void) {
    skip_without_tags();
    char *stale = claim_hide(malloc(40));
    free(stale);
    char *next = claim_hide(malloc(40));
    CLAIM(address_of(next) == address_of(stale));
    free(stale);
    return 1;
}
