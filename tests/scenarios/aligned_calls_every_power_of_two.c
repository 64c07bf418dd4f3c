// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * posix_memalign, aligned_alloc and memalign honour every power of two from 1 (8 for
 * posix_memalign) to 1 GiB, for small, medium and large sizes, with several blocks alive at once.
 */
#include "claim.h"

#include <malloc.h>

#define LIVE 3

static void *aligned_by(int call, size_t alignment, size_t size) {
    void *block = NULL;
    switch (call) {
    case 0:
        CLAIM(posix_memalign(&block, alignment, size) == 0);
        return block;
    case 1:
        return aligned_alloc(alignment, size);
    default:
        return memalign(alignment, size);
    }
}

/* Writes both ends, so that a block must really be there, and only there. */
static void check(int call, size_t alignment, size_t size) {
    unsigned char *blocks[LIVE];
    for (int i = 0; i < LIVE; i++) {
        blocks[i] = claim_hide(aligned_by(call, alignment, size));
        CLAIM(blocks[i] != NULL);
        CLAIM(claim_is_aligned(blocks[i], alignment));
        CLAIM(malloc_usable_size(blocks[i]) >= size);
        if (size > 0) {
            blocks[i][0] = (unsigned char)(i + 1);
            blocks[i][size - 1] = (unsigned char)(i + 1);
        }
    }
    for (int i = 0; i < LIVE; i++) {
        if (size > 0) {
            CLAIM(blocks[i][0] == i + 1 && blocks[i][size - 1] == i + 1);
        }
        free(blocks[i]);
    }
}

int main(void) {
    static const size_t sizes[] = {0,    1,     8,     24,    100,    512,     1000,   4096,
                                   5000, 16384, 40000, 65536, 300000, 1 << 20, 5 << 20};
    for (int call = 0; call < 3; call++) {
        size_t least = call == 0 ? sizeof(void *) : 1;
        for (size_t alignment = least; alignment <= (size_t)1 << 30; alignment <<= 1) {
            for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
                check(call, alignment, sizes[i]);
            }
        }
    }
    return 0;
}
