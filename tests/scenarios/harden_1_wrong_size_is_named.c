// expect: SIGABRT "poolshim: free with a wrong size or alignment of 0x" "(size class 64, thread "
// env: POOLSHIM_HARDEN=1
/* SPDX-License-Identifier: MIT */
/* Level 1: free_sized with the right size frees, with another one stops the program. */
#include "claim.h"

#include <dlfcn.h>
#include <stdlib.h>

typedef void (*free_sized_call)(void *block, size_t size);
typedef void (*free_aligned_sized_call)(void *block, size_t alignment, size_t size);

int main(void) {
    free_sized_call free_sized = (free_sized_call)dlsym(RTLD_DEFAULT, "free_sized");
    free_aligned_sized_call free_aligned_sized =
        (free_aligned_sized_call)dlsym(RTLD_DEFAULT, "free_aligned_sized");
    CLAIM(free_sized != NULL && free_aligned_sized != NULL);
    free_sized(NULL, 10);
    free_sized(claim_hide(malloc(60)), 60);
    free_sized(claim_hide(malloc(200000)), 200000);
    free_aligned_sized(claim_hide(aligned_alloc(256, 300)), 256, 300);
    free_aligned_sized(claim_hide(aligned_alloc(8192, 300)), 8192, 300);
    free_sized(claim_hide(realloc(claim_hide(malloc(100)), 70)), 70);
    free_sized(claim_hide(malloc(60)), 100);
    return 0;
}
