// expect: SIGABRT "poolshim: realloc of free block 0x" "freed by thread"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* realloc of a freed guarded block is named. */
#include "guarded.h"

int main(void) {
    char *block = allocate_here(63, GUARDED_BEGIN);
    free_here(block);
    CLAIM(realloc(claim_hide(block), 100) == NULL);
    return 0;
}
