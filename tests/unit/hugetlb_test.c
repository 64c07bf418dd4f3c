// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Memory in huge pages that the system has set aside: taken and returned as whole pages, never
 * purged in parts, and ordinary pages in their place when they are used up.
 */
#include "pools/engine/page/hugetlb.h"

#include "pools/engine/heap/mapping.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/engine.h"

#define HUGE_BYTES (2 * MIB)
#define HUGE_GRANULES (HUGE_BYTES >> PS_GRANULE_SHIFT)
#define RETRY_MS 100
#define ROUNDS 20000
#define BLOCKS 200

static uint64_t refused(void) { return ps_hugetlb_x_counts.refused; }

static size_t taken_pages(void) { return (size_t)(ps_hugetlb_x_counts.bytes / HUGE_BYTES); }

/* Starts the page cache alone. */
static void start(size_t pages) {
    engine_config.huge = (struct ps_huge_setting){PS_HUGE_HUGETLB, HUGE_BYTES};
    fake_os_set_huge_pages(pages, HUGE_BYTES);
    ps_page_cache_start(&engine_config);
    ps_mapping_start(&engine_config);
    ps_retention_set_delay(engine_config.purge_delay_ms);
}

/* Takes a run and writes to all of it. */
static struct ps_run *take(size_t granules) {
    struct ps_run *run = ps_page_cache_take(granules, 1);
    REQUIRE(run != NULL);
    if (!run->is_dirty) {
        CHECK(engine_is_zero((unsigned char *)run->base, granules << PS_GRANULE_SHIFT));
    }
    memset(run->base, 0xa5, granules << PS_GRANULE_SHIFT);
    return run;
}

static uint64_t stuck_granules(void) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    return counts.stuck_granules;
}

FRESH_TEST(small_processes_take_no_huge_page) {
    start(8);
    for (size_t i = 0; i < HUGE_GRANULES; i++) {
        CHECK(!take(1)->is_huge);
    }
    CHECK_EQ(fake_os_huge_pages_free(), 8);
    WHEN("the first arena is used up");
    CHECK(ps_hugetlb_has(take(1)));
    CHECK_EQ(fake_os_huge_pages_free(), 7);
    CHECK_EQ(taken_pages(), 1);
}

FRESH_TEST(all_pages_serve_and_ordinary_ones_when_they_are_used_up) {
    start(5);
    for (size_t page = 0; page < 5; page++) {
        CHECK(ps_hugetlb_has(take(HUGE_GRANULES)) || page == 0); /* in the first arena */
    }
    CHECK(ps_hugetlb_has(take(HUGE_GRANULES)));
    CHECK_EQ(fake_os_huge_pages_free(), 0);
    CHECK_EQ(refused(), 0);
    CHECK(!ps_hugetlb_has(take(HUGE_GRANULES)));
    CHECK_EQ(refused(), 1);
    WHEN("more are asked for at once");
    uint64_t calls = fake_os_calls(FAKE_OS_HUGE);
    CHECK(!ps_hugetlb_has(take(HUGE_GRANULES)));
    THEN("the system is left alone for a while");
    CHECK_EQ(fake_os_calls(FAKE_OS_HUGE), calls);
    fake_os_advance_ms(RETRY_MS);
    fake_os_set_huge_pages(1, HUGE_BYTES);
    CHECK(ps_hugetlb_has(take(4 * HUGE_GRANULES)) == false);
    fake_os_advance_ms(RETRY_MS);
    CHECK(ps_hugetlb_has(take(HUGE_GRANULES)));
    CHECK_EQ(fake_os_breaches(), 0);
}

FRESH_TEST(a_page_returns_when_the_last_part_of_it_is_free) {
    start(4);
    struct ps_run *parts[HUGE_GRANULES];
    (void)take(HUGE_GRANULES); /* the first arena */
    struct ps_run *page = take(HUGE_GRANULES);
    ps_page_cache_give(page);
    for (size_t i = 0; i < HUGE_GRANULES; i++) {
        parts[i] = take(1);
        CHECK(ps_hugetlb_has(parts[i]));
    }
    CHECK_EQ(fake_os_huge_pages_free(), 3);
    for (size_t i = 1; i < HUGE_GRANULES; i += 2) {
        ps_page_cache_give(parts[i]);
    }
    CHECK(!ps_purge_all(0));
    CHECK_EQ(fake_os_huge_pages_free(), 3);
    CHECK_EQ(fake_os_calls(FAKE_OS_PURGE), 0);
    CHECK_EQ(stuck_granules(), HUGE_GRANULES / 2);
    for (size_t i = 0; i < HUGE_GRANULES; i += 2) {
        CHECK_EQ(fake_os_huge_pages_free(), 3);
        ps_page_cache_give(parts[i]);
        (void)ps_purge_some(HUGE_GRANULES); /* as periodic work does: refused ones are left */
    }
    CHECK_EQ(fake_os_huge_pages_free(), 4);
    CHECK_EQ(taken_pages(), 0);
    CHECK_EQ(stuck_granules(), 0);
    CHECK_EQ(fake_os_calls(FAKE_OS_CLOSE), 1);
    WHEN("the addresses are used again");
    struct ps_run *again = take(1);
    CHECK(ps_hugetlb_has(again));
    CHECK_EQ(fake_os_huge_pages_free(), 3);
    THEN("the page serves the other parts of it too");
    CHECK_EQ((uintptr_t)take(1)->base & ~(HUGE_BYTES - 1),
             (uintptr_t)again->base & ~(HUGE_BYTES - 1));
    CHECK_EQ(fake_os_huge_pages_free(), 3);
    CHECK_EQ(fake_os_breaches(), 0);
}

FRESH_TEST(a_returned_page_that_others_took_is_replaced_by_an_ordinary_one) {
    start(2);
    (void)take(HUGE_GRANULES);
    ps_page_cache_give(take(2 * HUGE_GRANULES));
    CHECK(ps_purge_all(0));
    CHECK_EQ(fake_os_huge_pages_free(), 2);
    fake_os_set_huge_pages(0, HUGE_BYTES);
    struct ps_run *run = take(3);
    CHECK(!run->is_huge);
    CHECK_EQ(refused(), 1);
    CHECK_EQ(taken_pages(), 0);
    WHEN("they give it back");
    fake_os_set_huge_pages(2, HUGE_BYTES);
    fake_os_advance_ms(RETRY_MS);
    CHECK(ps_hugetlb_has(take(HUGE_GRANULES)));
    CHECK_EQ(fake_os_huge_pages_free(), 1);
}

FRESH_TEST(addresses_that_are_lost_are_never_used_again) {
    start(4);
    (void)take(HUGE_GRANULES);
    struct ps_run *run = take(HUGE_GRANULES);
    uintptr_t lost = (uintptr_t)run->base;
    ps_page_cache_give(run);
    CHECK(ps_purge_all(0));
    fake_os_lose_next();
    for (size_t i = 0; i < 200; i++) {
        CHECK_CMP((uintptr_t)take(HUGE_GRANULES / 2)->base & ~(HUGE_BYTES - 1), !=, lost);
        fake_os_advance_ms(RETRY_MS);
    }
    CHECK_CMP(refused(), >=, 1);
}

FRESH_TEST(a_page_that_the_system_does_not_close_remains_in_use) {
    start(2);
    (void)take(HUGE_GRANULES);
    ps_page_cache_give(take(HUGE_GRANULES));
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_CLOSE));
    CHECK(!ps_purge_all(0));
    CHECK_EQ(taken_pages(), 1);
    uint64_t calls = fake_os_calls(FAKE_OS_HUGE);
    CHECK(ps_hugetlb_has(take(HUGE_GRANULES)));
    CHECK_EQ(fake_os_calls(FAKE_OS_HUGE), calls);
}

FRESH_TEST(mappings_of_blocks_have_huge_pages_unless_too_much_is_unused) {
    static const struct {
        size_t bytes;
        size_t align;
        bool is_huge;
    } cases[] = {
        {32 * MIB, 1, true},           {33 * MIB, 1, true},
        {32 * MIB, HUGE_BYTES, true},  {32 * MIB, 2 * HUGE_BYTES, false},
        {16 * MIB + 4 * KIB, 1, true}, {4 * MIB + 4 * KIB, 1, false},
        {130 * MIB, 1, false}, /* more than there are */
    };
    start(64);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct ps_run *run = ps_mapping_take(cases[i].bytes, cases[i].align);
        REQUIRE(run != NULL);
        CHECK_EQ(ps_hugetlb_has(run), cases[i].is_huge);
        CHECK_EQ(taken_pages(),
                 cases[i].is_huge ? (cases[i].bytes + HUGE_BYTES - 1) / HUGE_BYTES : 0);
        memset(run->base, 1, cases[i].bytes);
        ps_mapping_give(run);
        (void)ps_mapping_expire(UINT64_MAX);
        CHECK_EQ(fake_os_huge_pages_free(), 64);
        CHECK_EQ(taken_pages(), 0);
    }
    CHECK_EQ(refused(), 1);
}

FRESH_TEST(a_mapping_shrinks_by_whole_pages_and_is_not_lengthened) {
    start(64);
    struct ps_run *run = ps_mapping_take(64 * MIB, 1);
    REQUIRE(run != NULL && ps_hugetlb_has(run));
    memset(run->base, 7, 64 * MIB);
    CHECK_PTR_EQ(ps_mapping_resize(run, 66 * MIB), NULL);
    CHECK_PTR_EQ(ps_mapping_resize(run, 41 * MIB + 1), run);
    CHECK_EQ(run->granules, 42 * MIB >> PS_GRANULE_SHIFT);
    CHECK_EQ(fake_os_huge_pages_free(), 64 - 21);
    CHECK_EQ(run->base[42 * MIB - 1], 7);
    CHECK_EQ(fake_os_calls(FAKE_OS_RESIZE) + fake_os_calls(FAKE_OS_MOVE), 0);
}

FRESH_TEST(a_mapping_that_is_not_unmapped_returns_its_pages_all_the_same) {
    start(64);
    struct ps_run *run = ps_mapping_take(32 * MIB, 1);
    REQUIRE(run != NULL && ps_hugetlb_has(run));
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RELEASE));
    ps_mapping_give(run);
    (void)ps_mapping_expire(UINT64_MAX);
    CHECK_EQ(fake_os_huge_pages_free(), 64);
    CHECK_EQ(taken_pages(), 0);
}

/* Random calls of the heap; in all, pages come and go, and the system refuses some. */
static void use_heap(size_t rounds) {
    static struct live_block blocks[BLOCKS];
    uint64_t state = 42;
    for (size_t round = 0; round < rounds; round++) {
        struct live_block *block = &blocks[engine_random(&state) % BLOCKS];
        size_t bytes = engine_random_size(&state);
        bytes = round % 64 == 0 ? bytes * 8 : bytes;
        if (block->address == NULL && round % 5 == 0) {
            unsigned char *fresh = ps_block_zalloc(bytes);
            CHECK(fresh == NULL || engine_is_zero(fresh, bytes));
            live_start(block, fresh, bytes, round);
        } else if (block->address == NULL) {
            live_start(block, ps_heap_alloc(bytes), bytes, round);
        } else if (round % 3 == 0) {
            (void)live_resize(block, bytes, round);
        } else {
            live_end(block);
        }
        if (round % 100 == 0) {
            fake_os_advance_ms(50);
        }
        if (round % 997 == 0) { /* others take and return pages */
            fake_os_set_huge_pages(engine_random(&state) % 20, HUGE_BYTES);
        }
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i].address != NULL) {
            live_end(&blocks[i]);
        }
    }
}

FRESH_TEST(random_calls_find_their_blocks_intact_while_pages_come_and_go) {
    engine_config.huge = (struct ps_huge_setting){PS_HUGE_HUGETLB, HUGE_BYTES};
    fake_os_set_huge_pages(20, HUGE_BYTES);
    use_heap(ROUNDS / FRESH_SLOWNESS);
    CHECK_CMP(refused(), >, 0);
    (void)ps_maintenance_trim(0);
    CHECK_CMP(taken_pages(), <=, 8); /* a few blocks of the library's own lie in some */
    CHECK_EQ(fake_os_breaches(), 0);
}

FRESH_TEST(a_heap_of_gibibyte_pages_uses_each_for_many_blocks) {
    engine_config.huge = (struct ps_huge_setting){PS_HUGE_HUGETLB, 1024 * MIB};
    fake_os_set_huge_pages(2, 1024 * MIB);
    struct live_block blocks[40];
    for (size_t i = 0; i < 40; i++) {
        live_start(&blocks[i], ps_heap_alloc(3 * MIB), 3 * MIB, i);
    }
    CHECK_EQ(fake_os_huge_pages_free(), 1);
    for (size_t i = 0; i < 40; i++) {
        live_end(&blocks[i]);
    }
    CHECK_EQ(fake_os_breaches(), 0);
}

UNIT_MAIN
