// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* A block from an aligned call may be reallocated to any size; its contents follow. */
#include "claim.h"

#include <malloc.h>

int main(void) {
    for (size_t alignment = 8; alignment <= (size_t)4 << 20; alignment *= 4) {
        for (size_t size = 1; size <= (size_t)8 << 20; size = size * 5 + 1) {
            for (size_t target = 1; target <= (size_t)16 << 20; target = target * 17 + 3) {
                void *block = NULL;
                CLAIM(posix_memalign(&block, alignment, size) == 0);
                size_t kept = size < target ? size : target;
                kept = kept < 5000 ? kept : 5000;
                claim_fill(block, kept, 11);
                block = realloc(block, target);
                CLAIM(block != NULL);
                CLAIM(malloc_usable_size(block) >= target);
                CLAIM(claim_is_filled(block, kept, 11));
                ((char *)block)[target - 1] = 1;
                free(block);
            }
        }
    }
    return 0;
}
