// expect: SIGSEGV "overflow (write) at" ", 2 bytes after a block of 4095 at 0x"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* A write past a guarded block stops at the instruction; free checks the one byte of slack. */
#include "guarded.h"

int main(void) {
    char *block = allocate_here(4095, GUARDED_END);
    block[4096] = 1;
    return 0;
}
