// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* realloc(NULL, n) is malloc(n), and realloc(NULL, 0) is a block that free takes. */
#include "claim.h"

int main(void) {
    void *empty = realloc(NULL, claim_size(0));
    void *other = realloc(NULL, claim_size(0));
    CLAIM(empty != NULL && other != NULL && empty != other);
    free(empty);
    free(other);
    for (size_t size = 1; size < (size_t)32 << 20; size = size * 2 + 1) {
        void *block = realloc(NULL, size);
        CLAIM(block != NULL);
        claim_fill(block, size, 3);
        CLAIM(claim_is_filled(block, size, 3));
        free(block);
    }
    return 0;
}
