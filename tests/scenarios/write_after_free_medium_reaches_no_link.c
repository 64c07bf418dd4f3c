// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* A write to a free block of 20 KiB or 100 KiB leads no later call astray. */
#include "claim.h"

#include <string.h>

int main(void) {
    static const size_t sizes[] = {20000, 100000};
    for (size_t s = 0; s < 2; s++) {
        char *blocks[4];
        for (int i = 0; i < 4; i++) {
            blocks[i] = claim_hide(malloc(sizes[s]));
        }
        for (int i = 0; i < 4; i++) {
            free(blocks[i]);
            memset(claim_hide(blocks[i]), 0x41, sizes[s]);
        }
        for (int i = 0; i < 4; i++) {
            char *block = claim_hide(malloc(sizes[s]));
            CLAIM(block != NULL && ((size_t)block & 15) == 0);
            memset(block, 0, sizes[s]);
        }
    }
    return 0;
}
