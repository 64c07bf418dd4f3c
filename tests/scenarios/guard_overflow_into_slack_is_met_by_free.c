// expect: SIGABRT "poolshim: free after heap overflow at 0x" ", 1 byte after"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* One byte past a block of odd size is still on its page: free finds it. */
#include "guarded.h"

int main(void) {
    char *block = allocate_here(63, GUARDED_END);
    block[63] = 0;
    free_here(block);
    return 0;
}
