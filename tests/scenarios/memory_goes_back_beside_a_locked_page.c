// expect: exit 0
// timeout: 120
/* SPDX-License-Identifier: MIT */
/*
 * One page of a block is locked and forgotten, and everything is freed: the system refuses to drop
 * the granule around that page, and only that. The granule goes back, too, once it is unlocked.
 */
#include "goes_back.h"

#define BLOCK_BYTES 100000
#define BLOCKS 4000
#define LIMIT ((size_t)24 << 20)

static size_t heap_mib(void) { return goes_back_heap_rss(BLOCKS) >> 20; }

/* The page that is locked, in a block that has been freed. */
static char *fill_and_free(void **blocks) {
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = malloc(BLOCK_BYTES);
        CLAIM(blocks[i] != NULL);
        memset(blocks[i], 1, BLOCK_BYTES);
    }
    char *page = (char *)(((uintptr_t)blocks[BLOCKS / 2] + 8191) & ~(uintptr_t)4095);
    if (mlock(page, 4096) != 0) {
        claim_skip("no page may be locked here");
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        free(blocks[i]);
    }
    return page;
}

int main(void) {
    void **blocks = goes_back_table(BLOCKS);
    char *page = fill_and_free(blocks);
    goes_back_be_lightly_active();
    size_t after_activity = goes_back_heap_rss(BLOCKS);
    CLAIM(munlock(page, 4096) == 0);
    char *second = fill_and_free(blocks);
    malloc_trim(0);
    size_t after_trim = goes_back_heap_rss(BLOCKS);
    CLAIM(munlock(second, 4096) == 0);
    CLAIM(malloc_trim(0) == 1);
    CLAIM(malloc_trim(0) == 0);
    dprintf(2, "resident: %zu MiB after light activity, %zu MiB after malloc_trim, %zu unlocked\n",
            after_activity >> 20, after_trim >> 20, heap_mib());
    CLAIM(after_activity < LIMIT);
    CLAIM(after_trim < LIMIT);
    return 0;
}
