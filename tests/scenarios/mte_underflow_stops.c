// expect: SIGSEGV "poolshim: heap underflow" ", 1 byte before a block of 1024 at 0x"
// env: POOLSHIM_HARDEN=mte
/* SPDX-License-Identifier: MIT */
/* The last byte in front of a block has the tag of another one. */
#include "mte.h"

int main(void) {
    skip_without_tags();
    char *first = claim_hide(malloc(1000));
    char *second = claim_hide(malloc(1000));
    char *upper = address_of(first) > address_of(second) ? first : second;
    volatile char *before = upper - 1;
    return *before + 1;
}
