// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* Sizes above PTRDIFF_MAX fail with ENOMEM, and the heap works on afterwards. */
#include "claim.h"

static void expect_no_memory(void *block) {
    CLAIM(block == NULL);
    CLAIM(errno == ENOMEM);
    errno = 0;
}

int main(void) {
    static const size_t sizes[] = {(size_t)PTRDIFF_MAX + 1,
                                   (size_t)PTRDIFF_MAX + 4096,
                                   SIZE_MAX / 2 + 2,
                                   SIZE_MAX - (1 << 20),
                                   SIZE_MAX - 4096,
                                   SIZE_MAX - 64,
                                   SIZE_MAX - 16,
                                   SIZE_MAX - 7,
                                   SIZE_MAX - 1,
                                   SIZE_MAX};
    errno = 0;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        expect_no_memory(malloc(claim_size(sizes[i])));
        expect_no_memory(calloc(1, claim_size(sizes[i])));
        expect_no_memory(calloc(claim_size(sizes[i]), 1));
        expect_no_memory(realloc(NULL, claim_size(sizes[i])));
        expect_no_memory(aligned_alloc(16, claim_size(sizes[i])));
    }
    void *block = malloc(100);
    CLAIM(block != NULL);
    claim_fill(block, 100, 1);
    CLAIM(claim_is_filled(block, 100, 1));
    free(block);
    return 0;
}
