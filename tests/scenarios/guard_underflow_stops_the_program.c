// expect: SIGSEGV "underflow (write) at" ", 1 byte before a block of 63 at 0x"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* A write before a guarded block stops at the instruction. */
#include "guarded.h"

int main(void) {
    char *block = allocate_here(63, GUARDED_BEGIN);
    block[-1] = 1;
    return 0;
}
