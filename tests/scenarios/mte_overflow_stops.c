// expect: SIGSEGV "poolshim: heap overflow" ", 1 byte after a block of 64 at 0x" "touched"
// env: POOLSHIM_HARDEN=mte
/* SPDX-License-Identifier: MIT */
/* The first byte after a block has the tag of another one. */
#include "mte.h"

int main(void) {
    skip_without_tags();
    char *block = claim_hide(malloc(64));
    block[63] = 1;
    block[64] = 1;
    return 1;
}
