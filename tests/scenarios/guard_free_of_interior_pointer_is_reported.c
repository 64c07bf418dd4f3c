// expect: SIGABRT "poolshim: free of interior pointer 0x" ", 16 bytes into a block"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* free of an address inside a guarded block is named. */
#include "guarded.h"

int main(void) {
    char *block = allocate_here(63, GUARDED_BEGIN);
    free(block + 16);
    return 0;
}
