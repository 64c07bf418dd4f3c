// expect: SIGSEGV "poolshim: use after free" ", 8 bytes into a block of 48 at 0x"
// env: POOLSHIM_HARDEN=mte
/* SPDX-License-Identifier: MIT */
/* The old pointer does not reach the next owner of its block. */
#include "mte.h"

#include <string.h>

int main(void) {
    skip_without_tags();
    char *stale = claim_hide(malloc(40));
    free(stale);
    char *next = claim_hide(malloc(40));
    CLAIM(address_of(next) == address_of(stale) && tag_of(next) != tag_of(stale));
    memset(next, 1, 40);
    stale[8] = 2;
    return 1;
}
