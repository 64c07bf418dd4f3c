// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Granules of regions that are lent, among medium blocks: each byte of one has one user. */
#include "pools/engine/page/medium.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"
#include "tests/unit/region_check.h"

#define OUT_LIMIT 120
#define ROUNDS 20000

/* A block, or a lent run, with a mark in each of its pages. */
static struct out {
    char *base;
    size_t pages;
    uint64_t mark;
    struct ps_run *run; /* NULL: a block */
    size_t at;
} out[OUT_LIMIT];
static size_t out_count;

static void start(void) {
    static const struct ps_config config = PS_CONFIG_DEFAULT;
    ps_page_cache_start(&config);
}

static uint64_t *word_of(const struct out *one, size_t page) {
    return (uint64_t *)(one->base + (page << PS_MEDIUM_PAGE_SHIFT)) + 5;
}

static void add(char *base, size_t pages, struct ps_run *run, size_t at) {
    struct out *one = &out[out_count++];
    *one = (struct out){base, pages, unit_random(), run, at};
    for (size_t page = 0; page < pages; page++) {
        *word_of(one, page) = one->mark + page;
    }
}

static bool take(size_t pages) {
    bool is_zero;
    char *base = ps_medium_take(pages, 1, &is_zero);
    if (base != NULL) {
        add(base, pages, NULL, 0);
    }
    return base != NULL;
}

static bool lend(size_t granules) {
    size_t at;
    struct ps_run *run = ps_medium_lend(granules, &at);
    if (run == NULL) {
        return false;
    }
    CHECK_EQ(run->granules, granules);
    CHECK_EQ(run->kind, PS_RUN_BUSY);
    CHECK_EQ(run->back, 0);
    CHECK_PTR_EQ(&ps_page_map_slot(run->base)->run, run);
    CHECK_CMP(at, >, 0);
    CHECK_CMP(at + granules, <=, PS_MEDIUM_GRANULES);
    const uint64_t *words = (const uint64_t *)run->base;
    for (size_t i = 0; !run->is_dirty && i < granules * PS_GRANULE_BYTES / 8; i += 61) {
        CHECK(words[i] == 0);
    }
    add(run->base, granules * PS_MEDIUM_GRANULE_PAGES, run, at);
    return true;
}

static void give(size_t index) {
    struct out *one = &out[index];
    for (size_t page = 0; page < one->pages; page++) {
        CHECK(*word_of(one, page) == one->mark + page);
    }
    if (one->run != NULL) {
        ps_medium_take_back(one->run, one->at);
    } else {
        ps_medium_block block = ps_medium_block_of(one->base, one->pages);
        ps_medium_give(&block, 1);
    }
    out[index] = out[--out_count];
}

static void check(void) {
    struct region_sum sum = check_regions(0);
    uint64_t lent = 0;
    uint64_t taken = 0;
    for (size_t i = 0; i < out_count; i++) {
        lent += out[i].run != NULL ? out[i].pages : 0;
        taken += out[i].run != NULL ? 0 : out[i].pages;
    }
    CHECK_EQ(sum.lent_pages, lent);
    CHECK_EQ(sum.lost_pages, taken); /* of blocks without marks */
}

FRESH_TEST(a_region_lends_what_is_free_but_its_first_granule) {
    GIVEN("a region with one short block, at its begin");
    start();
    REQUIRE(take(3));
    WHEN("its granules are lent one by one");
    size_t count = 0;
    while (lend(1)) {
        count++;
    }
    THEN("all but the first are");
    CHECK_EQ(count, PS_MEDIUM_GRANULES - 1);
    check();
    WHEN("three that do not lie together return, and two that do");
    give(2); /* the last one takes its place */
    give(5);
    give(9);
    give(10);
    check();
    THEN("a run of two is lent once");
    CHECK(lend(2));
    CHECK(!lend(2));
    check();
    while (out_count > 0) {
        give(0);
    }
    check();
    struct ps_medium_counts counts;
    ps_medium_drop_empty(0);
    ps_medium_count(&counts);
    CHECK_EQ(counts.region_count, 0);
    CHECK_EQ(fake_os_breaches(), 0);
}

FRESH_TEST(a_region_with_a_block_in_each_granule_lends_none) {
    start();
    for (size_t i = 0; i < PS_MEDIUM_GRANULES; i++) {
        REQUIRE(take(9) && take(7));
    }
    for (size_t i = PS_MEDIUM_GRANULES; i-- > 0;) {
        give(2 * i + 1); /* the odd ones, from the end */
    }
    CHECK(!lend(1));
    check();
}

FRESH_TEST(blocks_and_lent_granules_do_not_overlap) {
    start();
    fake_os_refuse(0);
    for (size_t round = 0; round < ROUNDS / FRESH_SLOWNESS; round++) {
        bool has_room = out_count < OUT_LIMIT;
        uint64_t kind = unit_random() % 8;
        if (has_room && kind < 3) {
            CHECK(take(1 + unit_random() % (unit_random() % PS_MEDIUM_PAGES_LIMIT + 1)));
        } else if (has_room && kind == 3) {
            (void)lend(1 + unit_random() % 3);
        } else if (out_count != 0) {
            give(unit_random() % out_count);
        }
        if (round % 500 == 0) {
            check();
        }
        if (round % 1000 == 0) {
            (void)ps_medium_purge_all();
        }
    }
    while (out_count > 0) {
        give(out_count - 1);
    }
    check();
    struct ps_medium_counts counts;
    ps_medium_drop_empty(0);
    ps_medium_count(&counts);
    CHECK_EQ(counts.region_count, 0);
    CHECK_EQ(fake_os_breaches(), 0);
}

UNIT_MAIN
