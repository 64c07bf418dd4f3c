// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* memalign takes any alignment and serves the next power of two, as glibc does. */
#include "claim.h"

#include <malloc.h>

int main(void) {
    static const size_t odd[] = {0, 1, 3, 5, 24, 33, 100, 3000, 4097, 70000};
    static const size_t promised[] = {1, 1, 4, 8, 32, 64, 128, 4096, 8192, 131072};
    for (size_t i = 0; i < sizeof odd / sizeof odd[0]; i++) {
        for (size_t size = 1; size < 200000; size = size * 5 + 3) {
            void *block = memalign(claim_size(odd[i]), size);
            CLAIM(block != NULL);
            CLAIM(claim_is_aligned(block, promised[i]));
            memset(block, 0x5a, size);
            free(block);
        }
    }
    return 0;
}
