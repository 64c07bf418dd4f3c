// expect: exit 0
// env: POOLSHIM_HARDEN=1
/* SPDX-License-Identifier: MIT */
/* Level 1: freed memory is zero, except the word that links it. */
#include "claim.h"

#include <string.h>

int main(void) {
    for (size_t bytes = 16; bytes <= 20000; bytes += 1021) {
        volatile unsigned char *block = claim_hide(malloc(bytes));
        memset(claim_hide((void *)block), 0x5a, bytes);
        free(claim_hide((void *)block));
        for (size_t i = sizeof(void *); i < bytes; i++) {
            CLAIM(block[i] == 0);
        }
    }
    return 0;
}
