/* SPDX-License-Identifier: MIT */
/*
 * The pools library beside malloc in one file. Prints "one cache" if the pages of a region count as
 * pools in malloc's statistics.
 */
#include <poolshim/poolshim.h>
#include <poolshim/region.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 10000, BLOCK_BYTES = 1000 };

static size_t bytes_of_pools(void) {
    struct poolshim_stats stats;
    return poolshim_stats_read(&stats, sizeof stats) == 0 ? stats.pools_bytes : 0;
}

int main(void) {
    char *block = malloc(10);
    size_t before = bytes_of_pools();
    struct ps_region *region = ps_region_create(NULL);
    for (int i = 0; i < BLOCKS; i++) {
        memset(ps_region_alloc(region, BLOCK_BYTES), i, BLOCK_BYTES);
    }
    size_t grown = bytes_of_pools() - before;
    puts(grown >= (size_t)BLOCKS * BLOCK_BYTES ? "one cache" : "two caches");
    ps_region_destroy(region);
    free(block);
}
