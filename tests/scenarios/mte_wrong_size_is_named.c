// expect: SIGABRT "poolshim: free with a wrong size or alignment of 0x"
// env: POOLSHIM_HARDEN=mte
/* SPDX-License-Identifier: MIT */
/* A size that free is told is compared with the block's. */
#include "mte.h"

void free_sized(void *block, size_t size) __attribute__((weak));

int main(void) {
    skip_without_tags();
    free_sized(claim_hide(malloc(100)), 100);
    free_sized(claim_hide(malloc(100)), 300);
    return 1;
}
