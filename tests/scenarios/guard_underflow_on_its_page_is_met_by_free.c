// expect: SIGABRT "poolshim: free after heap underflow at 0x" ", 9 bytes before"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* Before a block that lies at the end of its page there is room, which free checks. */
#include "guarded.h"

int main(void) {
    char *block = allocate_here(63, GUARDED_END);
    block[-9] = 0;
    free_here(block);
    return 0;
}
