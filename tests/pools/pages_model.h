/* SPDX-License-Identifier: MIT */
/*
 * What the tests of pages share: the live runs, with marks in every page of them, random calls
 * that update the list, and the invariants when all have returned. Over the fake OS; one
 * thread.
 */
#ifndef PS_TESTS_POOLS_PAGES_MODEL_H
#define PS_TESTS_POOLS_PAGES_MODEL_H

#include "pools/engine/page/page_cache.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"

#include <errno.h>
#include <poolshim/pages.h>

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define GIB ((size_t)1 << 30)
#define PAGE PS_PAGE_BYTES
#define RUN_LIMIT 300

struct live_run {
    char *base;
    size_t pages;
    uint64_t mark; /* in the first and the last word of every page */
};

static struct live_run live[RUN_LIMIT];
static size_t live_count;
static size_t live_pages;

static inline uint64_t *first_word(const struct live_run *run, size_t page) {
    return (uint64_t *)(run->base + page * PAGE);
}

static inline uint64_t *last_word(const struct live_run *run, size_t page) {
    return (uint64_t *)(run->base + (page + 1) * PAGE - 8);
}

static inline void mark(const struct live_run *run, size_t from) {
    for (size_t page = from; page < run->pages; page++) {
        *first_word(run, page) = run->mark + page;
        *last_word(run, page) = ~run->mark - page;
    }
}

static inline void check_marks(const struct live_run *run) {
    for (size_t page = 0; page < run->pages; page++) {
        CHECK(*first_word(run, page) == run->mark + page);
        CHECK(*last_word(run, page) == ~run->mark - page);
    }
}

static inline void check_zero(const struct live_run *run) {
    for (size_t page = 0; page < run->pages; page++) {
        const uint64_t *words = first_word(run, page);
        for (size_t i = 0; i < PAGE / 8; i += i == 0 ? PAGE / 8 - 1 : 1) {
            CHECK(words[i] == 0);
        }
    }
}

static inline size_t random_pages(void) {
    switch (unit_random() % 16) {
    case 0:
        return 1 + unit_random() % 600;
    case 1:
    case 2:
    case 3:
        return 1 + unit_random() % 48;
    case 4:
    case 5:
    case 6:
    case 7:
        return (size_t)1 << (unit_random() % 9);
    default:
        return 1 + unit_random() % 15;
    }
}

static inline void add_run(char *base, size_t pages) {
    live[live_count] = (struct live_run){base, pages, unit_random()};
    mark(&live[live_count], 0);
    live_count++;
    live_pages += pages;
}

static inline void do_alloc(void) {
    size_t pages = random_pages();
    size_t bytes = pages * PAGE - unit_random() % PAGE;
    size_t align = (size_t)1 << (unit_random() % 4 == 0 ? unit_random() % 22 : 4);
    bool is_zeroed = unit_random() % 3 == 0;
    char *base = is_zeroed ? ps_pages_zalloc(bytes, align) : ps_pages_alloc(bytes, align);
    REQUIRE(base != NULL);
    CHECK_EQ((uintptr_t)base & (PAGE - 1), 0);
    CHECK_EQ((uintptr_t)base & (align - 1), 0);
    if (is_zeroed) {
        check_zero(&(struct live_run){base, pages, 0});
    }
    add_run(base, pages);
}

static inline void do_free(size_t index) {
    check_marks(&live[index]);
    ps_pages_free(live[index].base, live[index].pages * PAGE - unit_random() % PAGE);
    live_pages -= live[index].pages;
    live[index] = live[--live_count];
}

/* Frees some pages out of a run; up to two runs remain. */
static inline void do_free_part(size_t index) {
    struct live_run run = live[index];
    size_t from = unit_random() % run.pages;
    size_t pages = 1 + unit_random() % (run.pages - from);
    check_marks(&run);
    ps_pages_free(run.base + from * PAGE, pages * PAGE);
    live_pages -= run.pages;
    live[index] = live[--live_count];
    if (from != 0) {
        add_run(run.base, from);
    }
    if (from + pages != run.pages && live_count < RUN_LIMIT) {
        add_run(run.base + (from + pages) * PAGE, run.pages - from - pages);
    } else if (from + pages != run.pages) {
        ps_pages_free(run.base + (from + pages) * PAGE, (run.pages - from - pages) * PAGE);
    }
}

static size_t extended_count;

static inline void do_extend(struct live_run *run) {
    size_t added = random_pages();
    if (ps_pages_extend(run->base, run->pages * PAGE, (run->pages + added) * PAGE)) {
        size_t from = run->pages;
        run->pages += added;
        live_pages += added;
        mark(run, from);
        extended_count++;
    }
    check_marks(run);
}

static inline void random_step(void) {
    size_t action = unit_random() % 1000;
    if (live_count == 0 || (action < 480 && live_count < RUN_LIMIT)) {
        do_alloc();
    } else if (action < 800) {
        do_free(unit_random() % live_count);
    } else if (action < 900) {
        do_free_part(unit_random() % live_count);
    } else if (action < 985) {
        do_extend(&live[unit_random() % live_count]);
    } else if (action < 990) {
        ps_pages_trim_to(unit_random() % (4 * MIB));
    } else if (action < 995) {
        fake_os_advance_ms(unit_random() % 2000);
    } else {
        ps_pages_magazine_limit((unit_random() % 3) << (unit_random() % 22));
    }
}

/* Every granule of every arena is in use by pages, dirty or clean; and the figures agree. */
static inline void check_counts(void) {
    struct ps_pages_stats stats;
    ps_pages_stats(&stats);
    CHECK_EQ(stats.used_bytes, live_pages * PAGE);
    CHECK_CMP(stats.magazine_bytes, <=, 4 * MIB); /* the largest limit that random_step sets */
    for (size_t i = 0; i < live_count; i++) {
        check_marks(&live[i]);
    }
}

static inline void check_all_came_back(void) {
    struct ps_page_counts counts;
    struct ps_pages_stats stats;
    ps_pages_trim_to(0);
    ps_page_cache_count(&counts);
    ps_pages_stats(&stats);
    CHECK_EQ(counts.dirty_granules, 0);
    CHECK_EQ(counts.clean_granules, counts.arena_granules);
    CHECK_EQ(stats.used_bytes, 0);
    CHECK_EQ(stats.dirty_bytes, 0);
    CHECK_EQ(stats.reserved_bytes, counts.arena_granules << PS_GRANULE_SHIFT);
}

#endif
