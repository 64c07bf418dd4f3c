// expect: exit 0
// env: POOLSHIM_MMAP_MIN=128KiB POOLSHIM_CACHE_MAX=0
/* SPDX-License-Identifier: MIT */
/*
 * 150,000 large blocks, every other one freed: more holes than the kernel allows a process to
 * have, so munmap fails half-way. free must neither show that nor lose blocks, small
 * blocks are still served, and once the rest is freed everything works again.
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
    for (size_t size = 1; size < 60000; size = size * 3 / 2 + 1) {
        void *small = calloc(1, size);
        CLAIM(small != NULL && claim_is_zero(small, size));
        free(small);
    }
    for (unsigned i = 1; i < count; i += 2) {
        CLAIM(blocks[i][100] == (unsigned char)i);
    }
    for (unsigned i = 1; i < count; i += 2) {
        free(blocks[i]);
    }
    CLAIM(heap_use());
    return 0;
}
