// expect: SIGABRT "poolshim: write behind the end of 0x"
// env: POOLSHIM_HARDEN=2
/* SPDX-License-Identifier: MIT */
/* Level 2: a block that was written over from in front is found when it is freed. */
#include "claim.h"

#include <stdlib.h>
#include <unistd.h>

#define BLOCKS 40

int main(void) {
    char *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = claim_hide(malloc(56));
    }
    for (int i = 0; i < BLOCKS; i++) {
        for (int j = 0; j < BLOCKS; j++) {
            if (blocks[j] == blocks[i] + 64) {
                ((volatile char *)blocks[i])[58] = 1;
                ((volatile char *)blocks[i])[63] ^= 1;
                free(blocks[j]);
                _exit(0);
            }
        }
    }
    return 0;
}
