// expect: SIGABRT "poolshim: double free of 0x" "allocate_here" "free_here"
// env: POOLSHIM_GUARD_SAMPLE=1
// flags: -rdynamic
/* SPDX-License-Identifier: MIT */
/* The second free of a guarded block is named, with both of its frees. */
#include "guarded.h"

int main(void) {
    char *block = allocate_here(63, GUARDED_BEGIN);
    free_here(block);
    free_here(block);
    return 0;
}
