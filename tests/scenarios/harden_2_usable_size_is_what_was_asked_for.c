// expect: exit 0
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: a program may write to all that malloc_usable_size returns, and free the block. */
#include "claim.h"

#include <malloc.h>
#include <string.h>

int main(void) {
    for (size_t bytes = 0; bytes < 5000; bytes += 7) {
        char *block = claim_hide(malloc(bytes));
        CLAIM(malloc_usable_size(block) == bytes);
        memset(block, 0xee, bytes);
        block = claim_hide(realloc(block, bytes + 3));
        CLAIM(malloc_usable_size(block) == bytes + 3);
        memset(block, 0xdd, bytes + 3);
        free(block);
    }
    return 0;
}
