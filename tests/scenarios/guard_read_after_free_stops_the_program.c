// expect: SIGSEGV "use after free (read)" ", 12 bytes into a block of 63 at 0x"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* A read of a freed guarded block stops at the instruction. */
#include "guarded.h"

int main(void) {
    volatile char *block = allocate_here(63, GUARDED_BEGIN);
    free_here((void *)block);
    return block[12];
    return 0;
}
