// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Pages of one thread: random calls compared with a list of live runs, any part of a run can be
 * freed, runs grow in place, zeroes are known, sizes at the edges, misuse.
 */
#include "tests/pools/pages_model.h"

#define ROUNDS (15000 / FRESH_SLOWNESS)

FRESH_TEST(runs_never_overlap_and_all_come_back) {
    for (size_t round = 0; round < ROUNDS; round++) {
        random_step();
        if (round % 1000 == 0) {
            check_counts();
        }
    }
    CHECK_CMP(extended_count, >, 10);
    check_counts();
    while (live_count > 0) {
        do_free(live_count - 1);
    }
    check_all_came_back();
}

FRESH_TEST(small_runs_share_a_granule) {
    char *pages[16];
    for (size_t i = 0; i < 16; i++) {
        pages[i] = ps_pages_alloc(PAGE, 16);
    }
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    CHECK_EQ(counts.arena_granules - counts.clean_granules, 1);
    for (size_t i = 0; i < 16; i++) {
        ps_pages_free(pages[i], PAGE);
    }
    check_all_came_back();
}

FRESH_TEST(the_tail_of_a_long_run_serves_others) {
    char *long_run = ps_pages_alloc(17 * PAGE, 16);
    char *other = ps_pages_alloc(15 * PAGE, 16);
    char *short_run = ps_pages_alloc(8 * PAGE, 16);
    CHECK(short_run == long_run + 24 * PAGE || short_run == other + 16 * PAGE);
    ps_pages_free(long_run, 17 * PAGE);
    ps_pages_free(other, 15 * PAGE);
    ps_pages_free(short_run, 8 * PAGE);
    check_all_came_back();
}

FRESH_TEST(any_pages_of_a_run_may_be_freed_in_any_order) {
    enum { PAGES = 200 };
    char *run = ps_pages_alloc(PAGES * PAGE, PAGE);
    size_t order[PAGES];
    for (size_t i = 0; i < PAGES; i++) {
        order[i] = i;
    }
    for (size_t i = PAGES; i-- > 1;) {
        size_t other = unit_random() % (i + 1);
        size_t kept = order[i];
        order[i] = order[other];
        order[other] = kept;
    }
    for (size_t i = 0; i < PAGES; i++) {
        ps_pages_free(run + order[i] * PAGE, PAGE);
    }
    check_all_came_back();
}

FRESH_TEST(a_run_is_lengthened_in_place_while_there_is_room) {
    char *run = ps_pages_alloc(PAGE, PAGE);
    ps_pages_trim_to(0); /* the neighbours are in the magazine */
    size_t pages = 1;
    for (; pages < 400; pages += 7) { /* in the first arena, which is small */
        REQUIRE(ps_pages_extend(run, pages * PAGE, (pages + 7) * PAGE));
        memset(run + pages * PAGE, 1, 7 * PAGE);
    }
    CHECK(ps_pages_extend(run, pages * PAGE, pages * PAGE - 1));
    char *next = ps_pages_alloc(600 * PAGE, PAGE);
    CHECK(!ps_pages_extend(run, pages * PAGE, GIB));
    CHECK(!ps_pages_extend(run, pages * PAGE, SIZE_MAX));
    CHECK(!ps_pages_extend(run, pages * PAGE, SIZE_MAX - 5));
    struct ps_pages_stats stats;
    ps_pages_stats(&stats);
    CHECK_EQ(stats.used_bytes, (pages + 600) * PAGE);
    ps_pages_free(run, pages * PAGE);
    ps_pages_free(next, 600 * PAGE);
    check_all_came_back();
}

FRESH_TEST(pages_known_to_be_zero_are_not_written) {
    char *run = ps_pages_zalloc(64 * MIB, 16);
    REQUIRE(run != NULL);
    CHECK_CMP(ps_os_resident(run, 64 * MIB), <, MIB);
    memset(run, 1, MIB);
    ps_pages_free(run, 64 * MIB);
    run = ps_pages_zalloc(64 * MIB, 16);
    CHECK(run[0] == 0 && run[MIB - 1] == 0);
    ps_pages_free(run, 64 * MIB);
    check_all_came_back();
}

FRESH_TEST(longer_than_any_arena_is_a_mapping) {
    size_t bytes = 5 * GIB;
    char *run = ps_pages_zalloc(bytes, 2 * MIB);
    if (run == NULL) {
        return; /* a machine that does not give so many addresses */
    }
    CHECK_EQ((uintptr_t)run & (2 * MIB - 1), 0);
    run[0] = run[bytes - 1] = 1;
    uint64_t mapped = fake_os_mapped_bytes();
    ps_pages_free(run + GIB + 4096, GIB);
    CHECK_CMP(fake_os_mapped_bytes(), <=, mapped - GIB + 2 * PS_GRANULE_BYTES);
    ps_pages_free(run, GIB + 4096);
    ps_pages_free(run + 2 * GIB + 4096, bytes - 2 * GIB - 4096);
    check_all_came_back();
}

FRESH_TEST(a_mapping_that_the_system_keeps_becomes_part_of_the_cache) {
    char *run = ps_pages_alloc(3 * GIB, 16);
    if (run == NULL) {
        return;
    }
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RELEASE));
    ps_pages_free(run, 3 * GIB);
    fake_os_refuse(0);
    char *inside = ps_pages_alloc(2 * GIB - MIB, 16);
    CHECK(inside >= run && inside < run + 3 * GIB);
    ps_pages_free(inside, 2 * GIB - MIB);
}

FRESH_TEST(sizes_and_alignments_at_the_edges) {
    char *run = ps_pages_alloc(0, 0);
    char *other = ps_pages_alloc(0, 1);
    CHECK(run != NULL && other != NULL && run != other);
    ps_pages_free(run, 0);
    ps_pages_free(other, 1);
    errno = 0;
    ps_pages_free(NULL, 0);
    ps_pages_free(NULL, PAGE);
    ps_pages_free(NULL, GIB);
    CHECK_EQ(errno, 0);
    static const size_t too_long[] = {SIZE_MAX, SIZE_MAX - PAGE, (size_t)PTRDIFF_MAX,
                                      (size_t)PTRDIFF_MAX + 1, (size_t)1 << 48};
    for (size_t i = 0; i < sizeof too_long / sizeof *too_long; i++) {
        errno = 0;
        CHECK(ps_pages_alloc(too_long[i], 16) == NULL);
        CHECK_EQ(errno, ENOMEM);
        errno = 0;
        CHECK(ps_pages_zalloc(too_long[i], 16) == NULL);
        CHECK_EQ(errno, ENOMEM);
    }
    static const size_t bad[] = {3, 24, 4097, 4 * MIB, SIZE_MAX};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        CHECK(ps_pages_alloc(PAGE, bad[i]) == NULL);
        CHECK_EQ(errno, EINVAL);
    }
    check_all_came_back();
}

/* ---- misuse ---- */

static void free_twice(size_t pages) {
    char *stays = ps_pages_alloc(PAGE, 16); /* and with it the granule */
    char *run = ps_pages_alloc(pages * PAGE, 16);
    *stays = 1;
    ps_pages_free(run, pages * PAGE);
    ps_pages_free(run, pages * PAGE);
}

FRESH_TEST(misuse_that_is_noticed_aborts) {
    static char own[4 * 4096] __attribute__((aligned(4096)));
    CHECK_ABORTS(free_twice(1), "poolshim: double free of pages 0x");
    CHECK_ABORTS(free_twice(3), "poolshim: double free of pages 0x");
    CHECK_ABORTS(free_twice(1000), "poolshim: free of pages that are not allocated 0x");
    CHECK_ABORTS(ps_pages_free(own, 600 * PAGE),
                 "poolshim: free of pages that are not allocated 0x");
    CHECK_ABORTS(ps_pages_free((char *)ps_pages_alloc(PAGE, 16) + 16, PAGE),
                 "poolshim: free of pages that are not allocated 0x");
    CHECK_ABORTS(ps_pages_free(ps_pages_alloc(8 * PAGE, 16), SIZE_MAX),
                 "poolshim: free of pages that are not allocated 0x");
}

UNIT_MAIN
