// expect: SIGABRT "poolshim: size of free block 0x"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* malloc_usable_size of a freed guarded block is named. */
#include "guarded.h"

int main(void) {
    char *block = allocate_here(63, GUARDED_BEGIN);
    free_here(block);
    CLAIM(malloc_usable_size(claim_hide(block)) == 0);
    return 0;
}
