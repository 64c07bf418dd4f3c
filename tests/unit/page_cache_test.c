// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* The page cache against a list of the runs that are out, with marks in every granule of them. */
#include "pools/engine/page/page_cache.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/page/metadata.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"

#define RUN_LIMIT 100
#define ROUNDS 6000
#define MIB ((size_t)1 << 20)

struct live_run {
    struct ps_run *run;
    size_t granules;
    uint64_t mark; /* in the first and last word of every granule */
};

static const struct ps_config config = PS_CONFIG_DEFAULT;
static struct live_run live[RUN_LIMIT];
static size_t live_count;
static size_t live_granules;

static void start(void) {
    ps_page_cache_start(&config);
    ps_retention_set_delay(config.purge_delay_ms);
}

static uint64_t *word_of(const struct ps_run *run, size_t granule, bool is_last) {
    return (uint64_t *)(run->base + granule * PS_GRANULE_BYTES +
                        (is_last ? PS_GRANULE_BYTES - 8 : 0));
}

static void mark_granules(const struct live_run *entry, size_t from) {
    for (size_t granule = from; granule < entry->granules; granule++) {
        *word_of(entry->run, granule, false) = entry->mark + granule;
        *word_of(entry->run, granule, true) = ~entry->mark - granule;
    }
}

static void check_marks(const struct live_run *entry) {
    CHECK_EQ(entry->run->granules, entry->granules);
    for (size_t granule = 0; granule < entry->granules; granule++) {
        CHECK(*word_of(entry->run, granule, false) == entry->mark + granule);
        CHECK(*word_of(entry->run, granule, true) == ~entry->mark - granule);
    }
}

static void check_zero(const struct ps_run *run, size_t from) {
    const uint64_t *words = (const uint64_t *)(run->base + from * PS_GRANULE_BYTES);
    size_t count = (run->granules - from) * PS_GRANULE_BYTES / 8;
    size_t step = count > 2 * PS_GRANULE_BYTES ? 511 : 1; /* the whole of short runs */
    for (size_t i = 0; i < count; i += step) {
        CHECK(words[i] == 0);
    }
    for (size_t granule = from; granule < run->granules; granule++) {
        CHECK(*word_of(run, granule, false) == 0 && *word_of(run, granule, true) == 0);
    }
}

static bool do_take(size_t granules, size_t align_granules) {
    struct ps_run *run = ps_page_cache_take(granules, align_granules);
    if (run == NULL) {
        return false;
    }
    CHECK_EQ(run->granules, granules);
    CHECK_EQ(run->kind, PS_RUN_BUSY);
    CHECK_EQ((uintptr_t)run->base & (align_granules * PS_GRANULE_BYTES - 1), 0);
    CHECK_PTR_EQ(&ps_page_map_slot(run->base)->run, run);
    if (!run->is_dirty) {
        check_zero(run, 0);
    }
    live[live_count] = (struct live_run){run, granules, unit_random()};
    mark_granules(&live[live_count], 0);
    live_count++;
    live_granules += granules;
    return true;
}

static void do_give(size_t index) {
    check_marks(&live[index]);
    live_granules -= live[index].granules;
    ps_page_cache_give(live[index].run);
    live[index] = live[--live_count];
}

static void do_extend(struct live_run *entry, size_t added) {
    bool is_clean = false;
    if (ps_page_cache_extend(entry->run, entry->granules + added, &is_clean)) {
        CHECK_EQ(entry->run->granules, entry->granules + added);
        if (is_clean) {
            check_zero(entry->run, entry->granules);
        }
        size_t from = entry->granules;
        entry->granules += added;
        mark_granules(entry, from);
        live_granules += added;
    }
    check_marks(entry);
}

static void do_shrink(struct live_run *entry) {
    size_t granules = 1 + unit_random() % entry->granules;
    if (granules < entry->granules) {
        ps_page_cache_shrink(entry->run, granules);
        live_granules -= entry->granules - granules;
        entry->granules = granules;
    }
    check_marks(entry);
}

static struct ps_page_counts counted(void) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    return counts;
}

/* Every granule of every arena is out, dirty or clean. */
static void check_counts(void) {
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    CHECK_EQ(counts.dirty_granules + counts.clean_granules + live_granules, counts.arena_granules);
    for (size_t i = 0; i < live_count; i++) {
        check_marks(&live[i]); /* overlapping runs would have overwritten each other's */
    }
}

struct walked {
    size_t free_runs;
    size_t free_granules;
    size_t busy_granules;
};

static void visit(struct ps_slot *slot, void *context) {
    struct walked *walked = context;
    bool is_free = slot->run.kind == PS_RUN_FREE;
    walked->free_runs += is_free;
    walked->free_granules += is_free ? slot->run.granules : 0;
    walked->busy_granules += is_free ? 0 : slot->run.granules;
}

static struct walked walk(void) {
    struct walked walked = {0};
    ps_page_cache_walk(visit, &walked);
    return walked;
}

static void random_step(void) {
    size_t action = unit_random() % 100;
    if (live_count == 0 || (action < 45 && live_count < RUN_LIMIT)) {
        size_t granules = 1 + unit_random() % (unit_random() % 16 == 0 ? 100 : 12);
        do_take(granules, (size_t)1 << (unit_random() % 4 == 0 ? unit_random() % 7 : 0));
        return;
    }
    size_t index = unit_random() % live_count;
    if (action < 80) {
        do_give(index);
    } else if (action < 90) {
        do_extend(&live[index], 1 + unit_random() % 20);
    } else if (action < 99) {
        do_shrink(&live[index]);
    } else {
        ps_purge_all(unit_random() % (8 * MIB));
    }
}

FRESH_TEST(runs_never_overlap_and_come_together_again_in_the_end) {
    start();
    for (int round = 0; round < ROUNDS; round++) {
        random_step();
        if (round % 64 == 0) {
            check_counts();
            CHECK_EQ(walk().busy_granules, live_granules);
        }
    }
    WHEN("all runs are returned and purged");
    while (live_count > 0) {
        do_give(live_count - 1);
    }
    check_counts();
    CHECK(ps_purge_all(0));
    THEN("all is clean, and at most one run per arena");
    struct ps_page_counts counts;
    ps_page_cache_count(&counts);
    CHECK_EQ(counts.dirty_granules, 0);
    CHECK_EQ(counts.clean_granules, counts.arena_granules);
    CHECK_CMP(walk().free_runs, <=, counts.arena_count);
    CHECK_EQ(walk().free_granules + counts.closed_granules, counts.arena_granules);
    CHECK_EQ(walk().busy_granules, 0);
    REQUIRE(do_take(300, 1)); /* reads as zero: checked by do_take */
    CHECK(!live[0].run->is_dirty);
}

FRESH_TEST(dirty_runs_are_allocated_before_clean_ones) {
    start();
    REQUIRE(do_take(4, 1) && do_take(4, 1) && do_take(4, 1));
    const char *base = live[1].run->base;
    do_give(1);
    REQUIRE(do_take(3, 1));
    CHECK_PTR_EQ(live[live_count - 1].run->base, base);
    CHECK(live[live_count - 1].run->is_dirty);
}

FRESH_TEST(extending_needs_free_granules_right_behind) {
    start();
    REQUIRE(do_take(2, 1) && do_take(2, 1));
    struct live_run *first = &live[live[0].run->base < live[1].run->base ? 0 : 1];
    struct live_run *second = &live[live[0].run->base < live[1].run->base ? 1 : 0];
    bool is_clean = false;
    CHECK(!ps_page_cache_extend(first->run, 3, &is_clean));
    check_marks(first);
    do_extend(second, 10);
    CHECK_EQ(second->granules, 12);
    check_counts();
}

/* A used-up arena of plain pages, right before one of huge pages. */
static struct ps_run *run_before_the_other_kind(struct ps_run **other) {
    REQUIRE(do_take(32, 1)); /* the first arena, which is small */
    fake_os_limit_reserve(2 * MIB);
    struct ps_run *huge = ps_page_cache_take_dense(16);
    REQUIRE(huge != NULL && huge->is_huge);
    *other = huge;
    fake_os_place_next(huge->base - 2 * MIB);
    struct ps_run *plain = ps_page_cache_take(32, 1);
    fake_os_limit_reserve(SIZE_MAX);
    return plain;
}

FRESH_TEST(runs_are_not_extended_by_memory_of_the_other_kind) {
    start();
    struct ps_run *huge;
    struct ps_run *plain = run_before_the_other_kind(&huge);
    if (plain == NULL || plain->base + 2 * MIB != huge->base) {
        UNIT_SKIP("the addresses before an arena are taken");
    }
    CHECK(!plain->is_huge);
    ps_page_cache_give(huge);
    bool is_clean;
    CHECK(!ps_page_cache_extend(plain, 40, &is_clean));
    ps_purge_all(0);
    CHECK(!ps_page_cache_extend(plain, 40, &is_clean));
    CHECK_EQ(plain->granules, 32);
    ps_page_cache_give(plain);
}

FRESH_TEST(extending_opens_more_of_an_arena) {
    start();
    REQUIRE(do_take(16, 1));
    CHECK_EQ(counted().closed_granules, 16);
    do_extend(&live[0], 9);
    CHECK_EQ(live[0].granules, 25);
    check_counts();
    WHEN("the system refuses to open more");
    REQUIRE(do_take(7, 1)); /* the rest of the first arena */
    REQUIRE(do_take(16, 1));
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PROTECT));
    do_extend(&live[2], 20);
    CHECK_EQ(live[2].granules, 16);
    fake_os_refuse(0);
    do_extend(&live[2], 20);
    CHECK_EQ(live[2].granules, 36);
    check_counts();
}

FRESH_TEST(a_run_that_the_rest_of_an_arena_is_too_short_for_gets_another) {
    start();
    REQUIRE(do_take(1, 1));
    REQUIRE(do_take(40, 1)); /* 15 clean granules and 16 closed ones are there */
    REQUIRE(do_take(31, 1)); /* and these are they */
    CHECK_EQ(counted().arena_count, 2);
    check_counts();
}

FRESH_TEST(arenas_grow_with_the_heap) {
    static const size_t wanted_mib[] = {2, 32, 64, 128, 256, 512, 1024, 1024};
    struct ps_page_counts before = {0};
    start();
    for (size_t i = 0; i < sizeof wanted_mib / sizeof wanted_mib[0]; i++) {
        REQUIRE(ps_page_cache_take(wanted_mib[i] * MIB / PS_GRANULE_BYTES, 1) != NULL);
        struct ps_page_counts counts = counted();
        CHECK_EQ(counts.arena_count, i + 1);
        CHECK_EQ((counts.arena_granules - before.arena_granules) * PS_GRANULE_BYTES,
                 wanted_mib[i] * MIB);
        CHECK_EQ(counts.closed_granules, 0);
        before = counts;
    }
}

FRESH_TEST(at_most_an_eighth_more_than_the_taken_part_is_accessible) {
    size_t steps = 0;
    uint64_t accessible = 0;
    start();
    for (size_t taken = 1; taken < 1024 * MIB / PS_GRANULE_BYTES; taken++) {
        REQUIRE(ps_page_cache_take(1, 1) != NULL);
        struct ps_page_counts counts = counted();
        steps += counts.arena_granules - counts.closed_granules != accessible;
        accessible = counts.arena_granules - counts.closed_granules;
        CHECK_CMP(accessible, <=, taken + ps_max(taken / 8, MIB / PS_GRANULE_BYTES));
    }
    CHECK_CMP(steps, <, 150); /* each is a system call */
}

FRESH_TEST(a_long_run_gets_an_arena_that_holds_it) {
    start();
    REQUIRE(ps_page_cache_take(40 * MIB / PS_GRANULE_BYTES + 1, 1) != NULL);
    CHECK_EQ(counted().arena_granules * PS_GRANULE_BYTES, 40 * MIB + PS_GRANULE_BYTES);
    THEN("in huge pages, of whole ones");
    struct ps_run *run = ps_page_cache_take_dense(130 * MIB / PS_GRANULE_BYTES + 1);
    REQUIRE(run != NULL);
    CHECK_EQ((uintptr_t)run->base % (2 * MIB), 0);
    CHECK_EQ(counted().arena_granules * PS_GRANULE_BYTES, 172 * MIB + PS_GRANULE_BYTES);
}

FRESH_TEST(a_refused_arena_is_tried_smaller) {
    start();
    REQUIRE(do_take(32, 1)); /* the first, which is small */
    fake_os_limit_reserve(5 * MIB);
    REQUIRE(do_take(16, 1));
    CHECK_EQ(counted().arena_granules * PS_GRANULE_BYTES, 6 * MIB);
    CHECK_PTR_EQ(ps_page_cache_take(6 * MIB / PS_GRANULE_BYTES, 1), NULL);
    check_counts();
    WHEN("a granule at a time is all that there is");
    fake_os_limit_reserve(PS_GRANULE_BYTES);
    for (size_t i = 0; i < 60; i++) {
        REQUIRE(do_take(1, 1));
    }
    CHECK_CMP(counted().arena_granules * PS_GRANULE_BYTES, <=, 6 * MIB + 12 * PS_GRANULE_BYTES);
    THEN("the usual sizes return with the memory");
    fake_os_limit_reserve(SIZE_MAX);
    while (counted().closed_granules < 8 * MIB / PS_GRANULE_BYTES) {
        REQUIRE(ps_page_cache_take(1, 1) != NULL);
        REQUIRE(counted().arena_count < 40);
    }
}

FRESH_TEST(a_refused_step_is_tried_smaller) {
    start();
    fake_os_limit_open(3 * PS_GRANULE_BYTES);
    for (size_t i = 0; i < 20; i++) {
        REQUIRE(do_take(1, 1));
    }
    CHECK(!do_take(4, 1));
    struct ps_page_counts counts = counted();
    CHECK_CMP(counts.arena_granules - counts.closed_granules, <=, 23);
    WHEN("there is room again");
    fake_os_limit_open(SIZE_MAX);
    uint64_t calls = fake_os_calls(FAKE_OS_PROTECT);
    for (size_t i = 0; i < 1000; i++) {
        REQUIRE(ps_page_cache_take(1, 1) != NULL);
    }
    THEN("steps are as usual again");
    CHECK_CMP(fake_os_calls(FAKE_OS_PROTECT) - calls, <, 60);
}

FRESH_TEST(steps_that_are_refused_use_up_no_addresses) {
    start();
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PROTECT));
    for (size_t granules = 1; granules < 100; granules++) {
        CHECK_PTR_EQ(ps_page_cache_take(granules, 1), NULL);
    }
    CHECK_CMP(counted().arena_count, <=, 2);
    fake_os_refuse(0);
    CHECK(do_take(20, 1));
    check_counts();
}

FRESH_TEST(huge_pages_everywhere_are_whole_ones_while_they_are_to_be_had) {
    struct ps_config always = PS_CONFIG_DEFAULT;
    always.huge.policy = PS_HUGE_THP;
    ps_page_cache_start(&always);
    REQUIRE(do_take(1, 1));
    CHECK_EQ((uintptr_t)live[0].run->base % (2 * MIB), 0);
    CHECK_EQ(counted().arena_granules, 2 * MIB / PS_GRANULE_BYTES);
    CHECK_EQ(counted().closed_granules, 0);
    WHEN("a granule at a time is all that there is");
    fake_os_limit_reserve(PS_GRANULE_BYTES);
    for (size_t i = 0; i < 40; i++) {
        REQUIRE(do_take(1, 1));
    }
    check_counts();
}

FRESH_TEST(where_huge_pages_are_refused_single_granules_serve) {
    start();
    REQUIRE(do_take(32, 1));
    fake_os_limit_reserve(PS_GRANULE_BYTES);
    struct ps_run *run = ps_page_cache_take_dense(1);
    REQUIRE(run != NULL);
    CHECK(!run->is_huge);
}

FRESH_TEST(reserved_addresses_of_the_other_kind_serve_when_no_more_are_to_be_had) {
    start();
    struct ps_run *first = ps_page_cache_take_dense(64);
    struct ps_run *second = ps_page_cache_take_dense(64);
    REQUIRE(first != NULL && second != NULL);
    size_t closed = counted().closed_granules;
    REQUIRE(closed > 100);
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE));
    size_t taken = 0;
    while (do_take(10, 1)) {
        taken += 10;
    }
    CHECK_CMP(taken + 10, >=, closed);
    ps_page_cache_give(first);
    ps_page_cache_give(second);
    check_counts();
}

FRESH_TEST(exhaustion_gives_null_changes_nothing_and_passes) {
    start();
    GIVEN("a cache whose only arena is used up");
    fake_os_limit_reserve(2 * MIB);
    while (live_count < RUN_LIMIT && do_take(3, 1)) {
        fake_os_limit_reserve(0);
    }
    CHECK_EQ(live_count, 2 * MIB / PS_GRANULE_BYTES / 3);
    WHEN("more is requested");
    for (size_t granules = 3; granules < 100; granules += 7) {
        CHECK_PTR_EQ(ps_page_cache_take(granules, 4), NULL);
    }
    THEN("nothing has changed, and returned runs serve again");
    check_counts();
    CHECK_EQ(fake_os_mapped_bytes(), 2 * MIB + ps_metadata_x_bytes);
    do_give(5);
    CHECK(do_take(3, 1));
    fake_os_limit_reserve(SIZE_MAX);
    CHECK(do_take(100, 1));
    check_counts();
}

UNIT_MAIN
