// expect: SIGSEGV
// env: POOLSHIM_HARDEN=1
/* SPDX-License-Identifier: MIT */
/* Level 1: blocks of no size are addresses like others, but there is no memory. */
#include "claim.h"

#include <malloc.h>
#include <stdlib.h>

#define BLOCKS 5000

int main(void) {
    static char *blocks[BLOCKS];
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < BLOCKS; i++) {
            blocks[i] = i % 2 != 0 ? malloc(claim_size(0)) : calloc(claim_size(0), 8);
            CLAIM(blocks[i] != NULL && malloc_usable_size(blocks[i]) == 0);
            CLAIM(i == 0 || blocks[i] != blocks[i - 1]);
        }
        for (int i = 0; i < BLOCKS; i++) {
            free(blocks[i]);
        }
    }
    char *grown = realloc(malloc(claim_size(0)), 100);
    CLAIM(grown != NULL);
    grown[99] = 'x';
    free(grown);
    return *(volatile char *)claim_hide(malloc(claim_size(0)));
}
