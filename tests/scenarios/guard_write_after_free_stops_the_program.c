// expect: SIGSEGV "use after free (write)" ", 12 bytes into a block of 63 at 0x"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* A write to a freed guarded block stops, also when many others were made and freed since. */
#include "guarded.h"

int main(void) {
    char *block = allocate_here(63, GUARDED_END);
    free_here(block);
    for (int i = 0; i < 200; i++) {
        free(claim_hide(malloc(63))); /* slots are reused oldest first, and there are 256 */
    }
    block[12] = 1;
    return 0;
}
