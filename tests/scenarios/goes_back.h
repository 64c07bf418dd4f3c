/* SPDX-License-Identifier: MIT */
/*
 * Drops a heap from a peak to 10 MiB live and measures the resident memory, once after up to two
 * seconds of light activity, and one more per GiB (the purge delay at work), and once right after
 * malloc_trim(0). The survivors lie in groups of one MiB spread over the whole heap. One thread;
 * used by the scenarios memory_goes_back_*.
 */
#ifndef PS_TESTS_GOES_BACK_H
#define PS_TESTS_GOES_BACK_H

#include "claim.h"

#include <malloc.h>
#include <sys/mman.h>
#include <time.h>

#define GOES_BACK_SURVIVING_BYTES ((size_t)10 << 20)
#define GOES_BACK_GROUP_BYTES ((size_t)1 << 20)
#define GOES_BACK_RSS_LIMIT ((size_t)64 << 20)
#define GOES_BACK_ACTIVITY_ROUNDS 200
#define GOES_BACK_ROUNDS_PER_GIB 100 /* no call does more than half a millisecond's part of it */

/* The table of blocks is no part of the heap: its own mapping. */
static void **goes_back_table(size_t count) {
    void *table = mmap(NULL, count * sizeof(void *), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CLAIM(table != MAP_FAILED);
    return (void **)table;
}

static int goes_back_survives(size_t index, size_t count, size_t block_bytes) {
    size_t group = GOES_BACK_GROUP_BYTES / block_bytes;
    group = group == 0 ? 1 : group;
    size_t groups = GOES_BACK_SURVIVING_BYTES / (group * block_bytes);
    groups = groups == 0 ? 1 : groups;
    size_t distance = count / groups;
    return index % distance < group && index / distance < groups;
}

/* Fills the heap up to `peak_bytes`, every page written, and frees all but the survivors. */
static void goes_back_rise_and_drop(void **table, size_t count, size_t block_bytes) {
    for (size_t i = 0; i < count; i++) {
        char *block = (char *)malloc(block_bytes);
        CLAIM(block != NULL);
        for (size_t offset = 0; offset < block_bytes; offset += 4096) {
            block[offset] = (char)(i | 1);
        }
        table[i] = block;
    }
    CLAIM(claim_rss_bytes() > count * block_bytes * 3 / 4);
    for (size_t i = 0; i < count; i++) {
        if (!goes_back_survives(i, count, block_bytes)) {
            free(table[i]);
            table[i] = NULL;
        }
    }
}

static void goes_back_free_survivors(void **table, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (table[i] != NULL) {
            CLAIM(*(char *)table[i] == (char)(i | 1));
            free(table[i]);
            table[i] = NULL;
        }
    }
}

/* A few allocations of mixed sizes every 10 ms, as an almost idle server does. */
static void goes_back_be_lightly_active_for(size_t rounds) {
    const struct timespec pause = {0, 10000000};
    for (size_t round = 0; round < rounds; round++) {
        void *blocks[60];
        for (int i = 0; i < 60; i++) {
            blocks[i] = malloc((size_t)(i * i * 9 + 1));
            CLAIM(blocks[i] != NULL);
        }
        for (int i = 0; i < 60; i++) {
            free(blocks[i]);
        }
        nanosleep(&pause, NULL);
    }
}

__attribute__((unused)) static void goes_back_be_lightly_active(void) {
    goes_back_be_lightly_active_for(GOES_BACK_ACTIVITY_ROUNDS);
}

/* Resident bytes without the table itself, which is not the allocator's. */
static size_t goes_back_heap_rss(size_t count) {
    size_t rss = claim_rss_bytes();
    size_t table = count * sizeof(void *);
    return rss > table ? rss - table : 0;
}

__attribute__((unused)) static int goes_back_check(size_t block_bytes, size_t peak_bytes) {
    size_t count = peak_bytes / block_bytes;
    void **table = goes_back_table(count);
    goes_back_rise_and_drop(table, count, block_bytes);
    goes_back_be_lightly_active_for(GOES_BACK_ACTIVITY_ROUNDS +
                                    (peak_bytes >> 30) * GOES_BACK_ROUNDS_PER_GIB);
    size_t after_activity = goes_back_heap_rss(count);
    goes_back_free_survivors(table, count);

    goes_back_rise_and_drop(table, count, block_bytes);
    malloc_trim(0);
    size_t after_trim = goes_back_heap_rss(count);
    goes_back_free_survivors(table, count);

    dprintf(2, "resident: %zu MiB after light activity, %zu MiB after malloc_trim\n",
            after_activity >> 20, after_trim >> 20);
    CLAIM(after_activity < GOES_BACK_RSS_LIMIT);
    CLAIM(after_trim < GOES_BACK_RSS_LIMIT);
    return 0;
}

#endif
