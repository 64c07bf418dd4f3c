// expect: exit 0
/* SPDX-License-Identifier: MIT */
/*
 * Under mlockall the kernel refuses MADV_DONTNEED: memory that could not be purged must not be
 * taken for zeroes afterwards.
 */
#include "claim.h"

#include <malloc.h>
#include <sys/mman.h>

#define BLOCKS 300

static const size_t sizes[] = {64, 1000, 4096, 30000, 200000};

static void dirty_and_trim(size_t size) {
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(size);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 0xdd, size);
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    malloc_trim(0);
}

static void expect_zeroes(size_t size) {
    static void *blocks[BLOCKS];
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = calloc(1, size);
        CLAIM(blocks[i] != NULL && claim_is_zero(claim_hide(blocks[i]), size));
    }
    for (int i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
}

int main(void) {
    if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) {
        claim_skip("mlockall is not allowed here");
    }
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        dirty_and_trim(sizes[i]);
        for (size_t j = 0; j < sizeof sizes / sizeof sizes[0]; j++) {
            expect_zeroes(sizes[j]);
        }
    }
    dirty_and_trim((size_t)1 << 20);
    void *large = calloc(1, (size_t)5 << 20);
    CLAIM(large != NULL && claim_is_zero(large, (size_t)5 << 20));
    free(large);
    return 0;
}
