/* SPDX-License-Identifier: MIT */
/*
 * The bound on the free memory of the page cache: enforced while runs are freed, by the call
 * itself, and by several threads at once.
 */
#include <poolshim/pages.h>

#include "tests/unit/fresh.h"

#include <pthread.h>

#define MIB ((size_t)1 << 20)
#define RUNS 40

static size_t dirty_bytes(void) {
    struct ps_pages_stats stats;
    ps_pages_stats(&stats);
    return stats.dirty_bytes;
}

/* Touches and frees runs of 2 MiB, which no magazine caches. */
static void *use_runs(void *unused) {
    (void)unused;
    char *runs[RUNS];
    for (size_t i = 0; i < RUNS; i++) {
        runs[i] = ps_pages_alloc(2 * MIB, 0);
        REQUIRE(runs[i] != NULL);
        memset(runs[i], 1, 2 * MIB);
    }
    for (size_t i = 0; i < RUNS; i++) {
        ps_pages_free(runs[i], 2 * MIB);
    }
    return NULL;
}

FRESH_TEST(free_memory_beyond_the_bound_is_released_at_once) {
    ps_pages_cache_limit(16 * MIB);
    use_runs(NULL);
    CHECK_CMP(dirty_bytes(), <=, 16 * MIB);
    CHECK_CMP(dirty_bytes(), >, 8 * MIB); /* and it retains memory below the bound */
    ps_pages_cache_limit(4 * MIB);
    CHECK_CMP(dirty_bytes(), <=, 4 * MIB);
    ps_pages_cache_limit(0);
    CHECK_EQ(dirty_bytes(), 0);
    ps_pages_cache_limit(SIZE_MAX);
    use_runs(NULL);
    CHECK_CMP(dirty_bytes(), >, 40 * MIB);
}

FRESH_TEST(threads_that_free_at_once_hold_it_too) {
    pthread_t threads[3];
    ps_pages_cache_limit(8 * MIB);
    for (size_t i = 0; i < 3; i++) {
        REQUIRE(pthread_create(&threads[i], NULL, use_runs, NULL) == 0);
    }
    for (size_t i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    use_runs(NULL); /* whose frees also release what lost a race above */
    CHECK_CMP(dirty_bytes(), <=, 10 * MIB);
}

UNIT_MAIN
