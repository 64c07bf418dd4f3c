// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* malloc(0), calloc(0, n) and calloc(n, 0) give a new pointer each time, and free takes it back. */
#include "claim.h"

#define BLOCKS 2000

static int compare_pointers(const void *left, const void *right) {
    uintptr_t a = (uintptr_t) * (void *const *)left;
    uintptr_t b = (uintptr_t) * (void *const *)right;
    return (a > b) - (a < b);
}

int main(void) {
    static void *blocks[3 * BLOCKS];
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[3 * i] = claim_hide(malloc(claim_size(0)));
        blocks[3 * i + 1] = claim_hide(calloc(claim_size(0), 8));
        blocks[3 * i + 2] = claim_hide(calloc(8, claim_size(0)));
    }
    qsort(blocks, 3 * BLOCKS, sizeof blocks[0], compare_pointers);
    CLAIM(blocks[0] != NULL);
    for (size_t i = 1; i < 3 * BLOCKS; i++) {
        CLAIM(blocks[i] != blocks[i - 1]);
    }
    for (size_t i = 0; i < 3 * BLOCKS; i++) {
        free(blocks[i]);
    }
    return 0;
}
