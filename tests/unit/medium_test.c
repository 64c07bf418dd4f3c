// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Medium blocks compared with a list of live ones, each page with a mark of its block. */
#include "pools/engine/page/medium.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"
#include "tests/unit/region_check.h"

#define BLOCK_LIMIT 300
#define ROUNDS 20000
#define DELAY_MS 1000

static struct out {
    char *base;
    size_t pages;
    uint64_t mark; /* in the first and the last word of each page */
} out[BLOCK_LIMIT];
static size_t out_count;
static size_t out_pages;

static void start(void) {
    static const struct ps_config config = PS_CONFIG_DEFAULT;
    ps_page_cache_start(&config);
    ps_retention_set_delay(DELAY_MS);
}

static uint64_t *word_of(const struct out *block, size_t page, bool is_last) {
    size_t in_page = is_last ? PS_MEDIUM_PAGE_BYTES - sizeof(uint64_t) : 0;
    return (uint64_t *)(block->base + (page << PS_MEDIUM_PAGE_SHIFT) + in_page);
}

static void mark_pages(const struct out *block, size_t from) {
    for (size_t page = from; page < block->pages; page++) {
        *word_of(block, page, false) = block->mark + page;
        *word_of(block, page, true) = ~block->mark - page;
    }
}

static void check_marks(const struct out *block) {
    for (size_t page = 0; page < block->pages; page++) {
        CHECK(*word_of(block, page, false) == block->mark + page);
        CHECK(*word_of(block, page, true) == ~block->mark - page);
    }
}

static bool take(size_t pages, size_t align) {
    bool is_zero;
    char *base = ps_medium_take(pages, align, &is_zero);
    if (base == NULL) {
        return false;
    }
    CHECK_EQ((uintptr_t)base % (align << PS_MEDIUM_PAGE_SHIFT), 0);
    const uint64_t *words = (const uint64_t *)base;
    for (size_t i = 0; is_zero && i < (pages << PS_MEDIUM_PAGE_SHIFT) / 8; i += 511) {
        CHECK(words[i] == 0);
    }
    out[out_count] = (struct out){base, pages, unit_random()};
    mark_pages(&out[out_count++], 0);
    out_pages += pages;
    return true;
}

static void give(size_t index) {
    ps_medium_block block = ps_medium_block_of(out[index].base, out[index].pages);
    check_marks(&out[index]);
    out_pages -= out[index].pages;
    ps_medium_give(&block, 1);
    out[index] = out[--out_count];
}

static void give_all(void) {
    while (out_count > 0) {
        give(out_count - 1);
    }
}

static void extend(struct out *block, size_t more) {
    if (ps_medium_extend(ps_medium_block_of(block->base, block->pages), more)) {
        size_t from = block->pages;
        block->pages += more;
        out_pages += more;
        mark_pages(block, from);
    }
    check_marks(block);
}

/* The end of a block goes back, as when it is shrunk. */
static void cut(struct out *block) {
    size_t kept = 1 + unit_random() % block->pages;
    if (kept < block->pages) {
        char *rest = block->base + (kept << PS_MEDIUM_PAGE_SHIFT);
        ps_medium_block tail = ps_medium_block_of(rest, block->pages - kept);
        ps_medium_give(&tail, 1);
        out_pages -= block->pages - kept;
        block->pages = kept;
    }
    check_marks(block);
}

static struct ps_medium_counts counted(void) {
    struct ps_medium_counts counts;
    ps_medium_count(&counts);
    return counts;
}

static void check_all(void) {
    struct region_sum sum = check_regions(0);
    CHECK_EQ(sum.marked_pages, 0); /* marks are the callers' */
    CHECK_EQ(sum.lost_pages, out_pages);
    for (size_t i = 0; i < out_count; i++) {
        check_marks(&out[i]);
    }
}

static size_t random_pages(void) {
    size_t pages = (size_t)1 << unit_random() % 7;
    return ps_min(pages + unit_random() % pages, PS_MEDIUM_PAGES_LIMIT);
}

static void random_step(void) {
    size_t action = unit_random() % 100;
    if (out_count == 0 || (action < 46 && out_count < BLOCK_LIMIT)) {
        REQUIRE(
            take(random_pages(), (size_t)1 << (unit_random() % 4 == 0 ? unit_random() % 5 : 0)));
        return;
    }
    size_t index = unit_random() % out_count;
    if (action < 80) {
        give(index);
    } else if (action < 88) {
        size_t more = 1 + unit_random() % 20;
        if (out[index].pages + more <= PS_MEDIUM_PAGES_LIMIT) {
            extend(&out[index], more);
        }
    } else if (action < 96) {
        cut(&out[index]);
    } else {
        fake_os_advance_ms(unit_random() % 400);
        ps_medium_purge_tick(ps_os_now_ms());
    }
}

FRESH_TEST(blocks_never_overlap_and_regions_go_back_in_the_end) {
    start();
    for (int round = 0; round < ROUNDS; round++) {
        random_step();
        if (round % 64 == 0) {
            check_all();
        }
        if (round % 5000 == 4999) {
            give_all();
            ps_medium_purge_all();
            check_all();
            CHECK_EQ(counted().region_count, 0);
        }
    }
    give_all();
    ps_medium_purge_all();
    CHECK(ps_purge_all(0));
    struct ps_page_counts pages;
    ps_page_cache_count(&pages);
    CHECK_EQ(pages.dirty_granules, 0);
    CHECK_EQ(pages.clean_granules, pages.arena_granules);
}

FRESH_TEST(the_shortest_sufficient_hole_is_taken_the_lowest_of_equals) {
    start();
    GIVEN("holes of 9, 5, 7 and 5 pages");
    static const size_t lengths[] = {9, 2, 5, 2, 7, 2, 5, 2};
    char *bases[8];
    for (size_t i = 0; i < 8; i++) {
        REQUIRE(take(lengths[i], 1));
        bases[i] = out[i].base;
    }
    for (size_t i = 8; i > 0; i -= 2) {
        give(i - 2);
    }
    check_all();
    THEN("each request finds its own");
    REQUIRE(take(5, 1));
    CHECK_PTR_EQ(out[out_count - 1].base, bases[2]);
    REQUIRE(take(6, 1)); /* at the end of the hole: double frees at its begin are still noticed */
    CHECK_PTR_EQ(out[out_count - 1].base, bases[4] + PS_MEDIUM_PAGE_BYTES);
    REQUIRE(take(5, 1));
    CHECK_PTR_EQ(out[out_count - 1].base, bases[6]);
    REQUIRE(take(4, 1)); /* at the begin: there is as much room after it */
    CHECK_PTR_EQ(out[out_count - 1].base, bases[0]);
}

FRESH_TEST(a_block_is_served_by_the_fuller_region) {
    start();
    GIVEN("a region with one hole of 10 pages, and one that is nearly empty");
    REQUIRE(take(126, 1) && take(10, 1) && take(120, 1));
    char *hole = out[1].base;
    REQUIRE(take(100, 1));
    CHECK_EQ(counted().region_count, 2);
    give(1);
    REQUIRE(take(10, 1));
    CHECK_PTR_EQ(out[out_count - 1].base, hole);
    check_all();
}

FRESH_TEST(neighbours_are_one_hole_whether_dirty_or_clean) {
    start();
    REQUIRE(take(20, 1) && take(20, 1));
    char *first = out[0].base;
    give(0);
    ps_medium_purge_all();
    CHECK_EQ(counted().dirty_pages, 0);
    give(0);
    CHECK_EQ(counted().dirty_pages, 20);
    REQUIRE(take(40, 1));
    CHECK_PTR_EQ(out[0].base, first);
    bool is_zero;
    give(0);
    CHECK_PTR_EQ(ps_medium_take(20, 1, &is_zero), first);
    CHECK(!is_zero);
}

FRESH_TEST(purged_pages_and_fresh_ones_are_known_to_be_zero) {
    bool is_zero;
    start();
    REQUIRE(take(1, 1)); /* so that the region remains */
    char *block = ps_medium_take(30, 1, &is_zero);
    CHECK(is_zero);
    memset(block, 0xff, 30 * PS_MEDIUM_PAGE_BYTES);
    ps_medium_block whole = ps_medium_block_of(block, 30);
    ps_medium_give(&whole, 1);
    CHECK_PTR_EQ(ps_medium_take(30, 1, &is_zero), block);
    CHECK(!is_zero);
    ps_medium_give(&whole, 1);
    CHECK(ps_medium_purge_all());
    CHECK_PTR_EQ(ps_medium_take(30, 1, &is_zero), block);
    CHECK(is_zero);
}

static void tick_for(uint64_t ms) {
    for (uint64_t step = 0; step < ms; step += 50) {
        fake_os_advance_ms(50);
        ps_medium_purge_tick(ps_os_now_ms());
    }
}

FRESH_TEST(what_was_free_for_the_delay_is_purged_and_what_was_used_stays) {
    start();
    tick_for(50);
    for (size_t i = 0; i < 10; i++) {
        REQUIRE(take(20, 1));
    }
    for (size_t i = 10; i > 0; i -= 2) {
        give(i - 1);
    }
    CHECK_EQ(counted().dirty_pages, 100);
    tick_for(DELAY_MS / 2);
    CHECK_EQ(counted().dirty_pages, 100);
    WHEN("half of them are used again for a moment");
    REQUIRE(take(20, 1) && take(20, 1));
    give(out_count - 1);
    give(out_count - 1);
    tick_for(DELAY_MS * 9 / 10);
    CHECK_EQ(counted().dirty_pages, 40);
    tick_for(DELAY_MS / 2);
    CHECK_EQ(counted().dirty_pages, 0);
    check_all();
}

FRESH_TEST(a_shorter_delay_holds_at_once) {
    start();
    ps_retention_set_delay(3600000);
    tick_for(50);
    REQUIRE(take(20, 1) && take(20, 1));
    give(1);
    tick_for(5 * DELAY_MS);
    CHECK_EQ(counted().dirty_pages, 20);
    ps_retention_set_delay(DELAY_MS);
    tick_for(2 * DELAY_MS);
    CHECK_EQ(counted().dirty_pages, 0);
    check_all();
}

FRESH_TEST(one_call_purges_a_bounded_part) {
    start();
    tick_for(50);
    for (size_t i = 0; i < 200; i++) {
        REQUIRE(take(60, 1));
    }
    for (size_t i = 200; i-- > 0;) {
        if (i % 2 == 0) {
            give(i);
        }
    }
    uint64_t dirty = counted().dirty_pages;
    fake_os_advance_ms(3 * DELAY_MS);
    for (size_t calls = 0; counted().dirty_pages != 0; calls++) {
        REQUIRE(calls < 100);
        ps_medium_purge_tick(ps_os_now_ms());
        CHECK_CMP(dirty - counted().dirty_pages, <=, 1024);
        dirty = counted().dirty_pages;
        fake_os_advance_ms(100);
    }
    check_all();
}

FRESH_TEST(pages_that_the_system_keeps_stop_no_others) {
    start();
    REQUIRE(take(30, 1) && take(10, 1) && take(30, 1) && take(120, 1));
    give(2);
    give(0);
    WHEN("the system refuses to purge anything");
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    CHECK(!ps_medium_purge_all());
    CHECK_EQ(counted().dirty_pages, 60);
    check_all();
    CHECK_EQ(counted().refused_pages, 60);
    THEN("it is not asked again for the same pages at once");
    uint64_t calls = fake_os_calls(FAKE_OS_PURGE);
    ps_medium_purge_tick(ps_os_now_ms());
    ps_medium_purge_tick(ps_os_now_ms());
    CHECK_EQ(fake_os_calls(FAKE_OS_PURGE), calls);
    WHEN("more is freed there");
    fake_os_refuse(0);
    give(0);
    CHECK(ps_medium_purge_all());
    CHECK_EQ(counted().dirty_pages, 0);
    check_all();
}

/* Makes regions with holes that the system refuses to purge, as in locked memory. */
static void refuse_all(size_t regions) {
    for (size_t i = 0; i < regions; i++) {
        REQUIRE(take(127, 1) && take(127, 1) && take(1, 1) && take(1, 1));
    }
    for (size_t i = 0; i < regions; i++) {
        give(4 * (regions - 1 - i));
    }
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    CHECK(!ps_medium_purge_all());
    CHECK_EQ(counted().refused_pages, 127 * regions);
    fake_os_refuse(0);
}

FRESH_TEST(unlocked_pages_go_back_by_trim) {
    start();
    refuse_all(6);
    CHECK(ps_medium_purge_all());
    CHECK_EQ(counted().dirty_pages, 0);
    check_all();
}

FRESH_TEST(unlocked_pages_go_back_as_time_passes) {
    start();
    tick_for(50);
    refuse_all(40);
    tick_for(5 * DELAY_MS);
    CHECK_EQ(counted().refused_pages, 0);
    CHECK_EQ(counted().dirty_pages, 0);
    check_all();
}

FRESH_TEST(refused_pages_make_no_others_due) {
    start();
    tick_for(50);
    refuse_all(2);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    tick_for(2 * DELAY_MS);
    REQUIRE(take(100, 1));
    REQUIRE(take(127, 1));
    fake_os_refuse(0);
    give(out_count - 1);
    uint64_t purged = fake_os_purged_bytes();
    tick_for(DELAY_MS / 2);
    CHECK_EQ(fake_os_purged_bytes(), purged);
}

FRESH_TEST(half_a_page_of_the_system_is_never_purged) {
    fake_os_set_page_bytes(4 * PS_MEDIUM_PAGE_BYTES);
    start();
    tick_for(50);
    for (size_t i = 0; i < 40; i++) {
        REQUIRE(take(4 + 4 * (i % 3), 4));
    }
    for (size_t i = 40; i > 0; i -= 2) {
        give(i - 1);
    }
    for (size_t i = 0; i < 60; i++) { /* less is due than a region has */
        REQUIRE(take(4, 4));
        give(out_count - 1);
        tick_for(50);
    }
    ps_medium_purge_all();
    CHECK_EQ(counted().dirty_pages, 0);
    CHECK_EQ(fake_os_breaches(), 0);
    check_all();
}

FRESH_TEST(an_empty_region_is_kept_and_a_second_one_is_not) {
    start();
    struct ps_page_counts before;
    struct ps_page_counts after;
    REQUIRE(take(127, 1) && take(127, 1) && take(127, 1) && take(127, 1));
    CHECK_EQ(counted().region_count, 2);
    ps_page_cache_count(&before);
    give_all();
    CHECK_EQ(counted().region_count, 1);
    ps_page_cache_count(&after);
    CHECK_EQ(after.dirty_granules, before.dirty_granules + PS_MEDIUM_GRANULES);
    ps_medium_drop_empty(0);
    CHECK_EQ(counted().region_count, 0);
}

FRESH_TEST(without_memory_there_is_no_block_and_nothing_has_changed) {
    start();
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE));
    CHECK(!take(5, 1));
    check_all();
    fake_os_refuse(0);
    CHECK(take(5, 1));
    check_all();
}

UNIT_MAIN
