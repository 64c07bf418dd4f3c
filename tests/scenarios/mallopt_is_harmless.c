// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* Programs tune glibc by mallopt: known parameters are accepted and everything works on. */
#include "claim.h"

#include <malloc.h>

int main(void) {
    CLAIM(mallopt(M_MMAP_THRESHOLD, 1 << 20) == 1);
    CLAIM(mallopt(M_TRIM_THRESHOLD, 1 << 20) == 1);
    CLAIM(mallopt(M_TOP_PAD, 1 << 16) == 1);
    CLAIM(mallopt(M_MMAP_MAX, 100) == 1);
    CLAIM(mallopt(M_ARENA_MAX, 2) == 1);
    for (size_t size = 1; size < (size_t)8 << 20; size = size * 2 + 1) {
        void *block = malloc(size);
        CLAIM(block != NULL);
        claim_fill(block, size, 1);
        CLAIM(claim_is_filled(block, size, 1));
        free(block);
    }
    return 0;
}
