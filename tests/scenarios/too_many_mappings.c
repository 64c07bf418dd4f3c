// expect: exit 0
// env: POOLSHIM_MMAP_MIN=128KiB POOLSHIM_CACHE_MAX=0
/* SPDX-License-Identifier: MIT */
/*
 * 150,000 large blocks of which every other one is freed: more holes than the kernel allows a
 * process to have, so munmap fails half-way. free must neither show that nor lose blocks, and
 * what is allocated afterwards works.
 */
#include "claim.h"
#include "heap_use.h"

#define BLOCKS 150000
#define BLOCK_BYTES ((size_t)128 << 10)

int main(void) {
    static unsigned char *blocks[BLOCKS];
    unsigned count = 0;
    while (count < BLOCKS) {
        blocks[count] = malloc(BLOCK_BYTES);
        if (blocks[count] == NULL) {
            break;
        }
        blocks[count][100] = (unsigned char)count;
        count++;
    }
    if (count < BLOCKS) {
        claim_skip("the address space or the memory of this machine is limited");
    }
    for (unsigned i = 0; i < count; i += 2) {
        errno = 4711;
        free(blocks[i]);
        CLAIM(errno == 4711);
    }
    CLAIM(heap_use());
    for (unsigned i = 1; i < count; i += 2) {
        CLAIM(blocks[i][100] == (unsigned char)i);
    }
    for (unsigned i = 0; i < 1000; i += 2) {
        blocks[i] = calloc(1, BLOCK_BYTES);
        CLAIM(blocks[i] != NULL && claim_is_zero(blocks[i], BLOCK_BYTES));
        free(blocks[i]);
    }
    for (unsigned i = 1; i < count; i += 2) {
        free(blocks[i]);
    }
    CLAIM(heap_use());
    return 0;
}
