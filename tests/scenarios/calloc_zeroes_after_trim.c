// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * calloc gives zeroes where dirty memory was purged, half purged, or reused by another size class
 * after the purge: whatever is remembered as "known to be zero" must be true.
 */
#include "claim.h"

#include <malloc.h>

#define BLOCKS 400

static const size_t sizes[] = {32, 1000, 4096, 20000, 100000, 300000};

static void dirty_and_free(void **blocks, size_t size, unsigned keep_every) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 0xee, size);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        if (i % keep_every != 0) {
            free(blocks[i]);
            blocks[i] = NULL;
        }
    }
}

static void expect_zeroes(size_t size) {
    void *blocks[BLOCKS];
    for (unsigned i = 0; i < BLOCKS; i++) {
        blocks[i] = calloc(1, size);
        CLAIM(blocks[i] != NULL && claim_is_zero(claim_hide(blocks[i]), size));
        memset(blocks[i], 0x11, size);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

int main(void) {
    const unsigned count = sizeof sizes / sizeof sizes[0];
    for (unsigned dirty = 0; dirty < count; dirty++) {
        for (unsigned clean = 0; clean < count; clean++) {
            if (sizes[clean] > 64 * sizes[dirty]) {
                continue; /* far apart: they share no memory, and it would only take time */
            }
            void *blocks[BLOCKS];
            dirty_and_free(blocks, sizes[dirty], 7);
            malloc_trim(0);
            expect_zeroes(sizes[clean]);
            for (unsigned i = 0; i < BLOCKS; i++) {
                free(blocks[i]);
            }
            malloc_trim(0);
        }
    }
    return 0;
}
