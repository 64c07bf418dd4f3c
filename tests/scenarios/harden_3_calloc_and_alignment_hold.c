// expect: exit 0
// env: POOLSHIM_HARDEN=3 POOLSHIM_GUARD_SAMPLE=2
/* SPDX-License-Identifier: MIT */
/* Level 3: samples among hardened blocks are zero for calloc, and aligned. */
#include "claim.h"

#include <stdint.h>
#include <string.h>

int main(void) {
    for (size_t i = 0; i < 3000; i++) {
        unsigned char *zeroes = claim_hide(calloc(1, 1 + i % 300));
        for (size_t k = 0; k < 1 + i % 300; k++) {
            CLAIM(zeroes[k] == 0);
        }
        memset(zeroes, 0xff, 1 + i % 300);
        free(zeroes);
        size_t align = (size_t)16 << (i % 9);
        void *aligned = claim_hide(aligned_alloc(align, align));
        CLAIM((uintptr_t)aligned % align == 0);
        free(aligned);
    }
    return 0;
}
