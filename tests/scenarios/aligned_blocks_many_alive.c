// expect: exit 0
/* SPDX-License-Identifier: MIT */
/* Hundreds of aligned blocks of mixed sizes alive at once: none overlaps, all are intact. */
#include "claim.h"

#define BLOCKS 3000

struct record {
    unsigned char *block;
    size_t size;
};

int main(void) {
    static struct record records[BLOCKS];
    unsigned random = 12345;
    for (int round = 0; round < 4; round++) {
        for (unsigned i = 0; i < BLOCKS; i++) {
            random = random * 1103515245u + 12345u;
            size_t alignment = (size_t)8 << ((random >> 16) % 11);
            random = random * 1103515245u + 12345u;
            size_t size = (random >> 16) % 3000 + 1;
            void *block = NULL;
            CLAIM(posix_memalign(&block, alignment, size) == 0);
            CLAIM(claim_is_aligned(block, alignment));
            claim_fill(block, size, i);
            records[i] = (struct record){(unsigned char *)block, size};
        }
        for (unsigned i = 0; i < BLOCKS; i++) {
            unsigned victim = (i * 7919u) % BLOCKS;
            CLAIM(claim_is_filled(records[victim].block, records[victim].size, victim));
            free(records[victim].block);
            records[victim].block = NULL;
        }
    }
    return 0;
}
