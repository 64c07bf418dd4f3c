/* SPDX-License-Identifier: MIT */
/*
 * Intrusive pools in C: counts, recycling, limits, the pool's end before its items', against
 * trivial models, and with a source that counts and fails.
 */
#include "tests/unit/unit.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"

#include <errno.h>
#include <poolshim/intrusive.h>

struct message {
    long before;
    struct ps_intrusive_item item;
    char text[100];
};

static struct message *message_of(struct ps_intrusive_item *item) {
    return item == NULL ? NULL : (struct message *)((char *)item - offsetof(struct message, item));
}

static struct ps_intrusive_options options_of(struct counting_source *source) {
    return (struct ps_intrusive_options){
        .chunks = {.source = &source->source},
        .bytes = sizeof(struct message),
        .item_offset = offsetof(struct message, item),
    };
}

TEST(an_item_comes_back_as_it_was_left) {
    NEEDS_CHUNKS();
    struct ps_intrusive pool;
    struct ps_intrusive_options options = {.bytes = sizeof(struct message),
                                           .item_offset = offsetof(struct message, item)};
    REQUIRE(ps_intrusive_init(&pool, &options));
    struct message *first = message_of(ps_intrusive_alloc(&pool));
    CHECK_EQ(first->item.count, 1);
    CHECK_EQ(first->item.is_built, 0);
    CHECK_EQ((uintptr_t)first % 16, 0);
    first->item.is_built = 1;
    strcpy(first->text, "left");
    ps_intrusive_take(&first->item);
    ps_intrusive_drop(&first->item);
    CHECK_EQ(first->item.count, 1);
    ps_intrusive_drop(&first->item);
    struct message *again = message_of(ps_intrusive_alloc(&pool));
    CHECK_PTR_EQ(again, first);
    CHECK_EQ(again->item.is_built, 1);
    CHECK_STR_EQ(again->text, "left");
    ps_intrusive_drop(&again->item);
    CHECK(ps_intrusive_check(&pool));
    ps_intrusive_destroy(&pool);
    ps_intrusive_destroy(&pool);
}

TEST(options_out_of_range_are_refused) {
    NEEDS_CHUNKS();
    struct ps_intrusive pool;
    static const struct ps_intrusive_options bad[] = {
        {.bytes = 15},
        {.bytes = SIZE_MAX},
        {.bytes = (size_t)1 << 41},
        {.bytes = 64, .align = 24},
        {.bytes = 64, .align = 4},
        {.bytes = 64, .align = 8192},
        {.bytes = 64, .item_offset = 49},
        {.bytes = 64, .item_offset = 56},
        {.bytes = 64, .max_items = 4, .reserve_items = 5},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        errno = 0;
        CHECK(!ps_intrusive_init(&pool, &bad[i]));
        CHECK_EQ(errno, EINVAL);
    }
    struct ps_intrusive_options huge = {.bytes = 64, .reserve_items = SIZE_MAX / 32};
    errno = 0;
    CHECK(!ps_intrusive_init(&pool, &huge));
    CHECK_EQ(errno, ENOMEM);
}

TEST(alignment_holds_for_every_object) {
    for (size_t align = 8; align <= 4096; align *= 2) {
        struct ps_intrusive pool;
        struct ps_intrusive_options options = {.bytes = 40, .align = align};
        REQUIRE(ps_intrusive_init(&pool, &options));
        struct ps_intrusive_item *items[50];
        for (size_t i = 0; i < 50; i++) {
            items[i] = ps_intrusive_alloc(&pool);
            CHECK_EQ((uintptr_t)items[i] % align, 0);
        }
        for (size_t i = 0; i < 50; i++) {
            ps_intrusive_drop(items[i]);
        }
        ps_intrusive_destroy(&pool);
    }
}

TEST(no_source_call_while_no_more_live_than_reserved) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_intrusive_options options = options_of(&source);
    options.reserve_items = 1000;
    struct ps_intrusive pool;
    REQUIRE(ps_intrusive_init(&pool, &options));
    CHECK_EQ(source.calls, 1);
    struct ps_intrusive_item *items[1000] = {NULL};
    for (size_t step = 0; step < 50000; step++) {
        size_t at = unit_random() % 1000;
        if (items[at] == NULL) {
            items[at] = ps_intrusive_alloc(&pool);
        } else {
            ps_intrusive_drop(items[at]);
            items[at] = NULL;
        }
    }
    CHECK_EQ(source.calls, 1);
    for (size_t at = 0; at < 1000; at++) {
        if (items[at] != NULL) {
            ps_intrusive_drop(items[at]);
        }
    }
    CHECK(ps_intrusive_check(&pool));
    REQUIRE(ps_intrusive_reserve(&pool, 3000));
    CHECK_EQ(source.calls, 2);
    struct ps_intrusive_item *chain = NULL;
    for (size_t i = 0; i < 3000; i++) {
        struct ps_intrusive_item *item = ps_intrusive_alloc(&pool);
        memcpy(item + 1, &chain, sizeof(void *));
        chain = item;
    }
    CHECK_EQ(source.calls, 2);
    while (chain != NULL) {
        struct ps_intrusive_item *item = chain;
        memcpy(&chain, item + 1, sizeof(void *));
        ps_intrusive_drop(item);
    }
    ps_intrusive_destroy(&pool);
    CHECK_EQ(source.live_bytes, 0);
}

/* Takes until NULL; returns how many. */
static size_t exhaust(struct ps_intrusive *pool, struct ps_intrusive_item **items, size_t count) {
    size_t taken = 0;
    while (taken < count && (items[taken] = ps_intrusive_alloc(pool)) != NULL) {
        taken++;
    }
    return taken;
}

TEST(limits_are_exact_whatever_the_step) {
    NEEDS_CHUNKS();
    static const size_t steps[] = {0, 1, 7, 64, 5000};
    static const size_t limits[] = {1, 2, 33, 700, 1500};
    static struct ps_intrusive_item *items[2000], *again[2000];
    for (size_t i = 0; i < 25; i++) {
        struct counting_source source = new_source(SIZE_MAX);
        struct ps_intrusive_options options = options_of(&source);
        options.step_items = steps[i % 5];
        options.max_items = limits[i / 5];
        options.reserve_items = i % 2 != 0 ? limits[i / 5] : 0;
        struct ps_intrusive pool;
        REQUIRE(ps_intrusive_init(&pool, &options));
        CHECK(!ps_intrusive_is_exhausted(&pool));
        errno = 0;
        CHECK_EQ(exhaust(&pool, items, 2000), limits[i / 5]);
        CHECK_EQ(errno, ENOMEM);
        CHECK(ps_intrusive_is_exhausted(&pool));
        size_t back = limits[i / 5] / 2;
        for (size_t at = 0; at < back; at++) {
            ps_intrusive_drop(items[at]);
        }
        CHECK_EQ(exhaust(&pool, again, 2000), back);
        memcpy(items, again, back * sizeof *items);
        CHECK(ps_intrusive_check(&pool));
        struct ps_intrusive_stats stats;
        ps_intrusive_stats(&pool, &stats);
        CHECK_EQ(stats.live_items, limits[i / 5]);
        CHECK_EQ(stats.capacity_items, limits[i / 5]);
        ps_intrusive_destroy(&pool);
        CHECK(source.live_bytes != 0);
        for (size_t at = 0; at < limits[i / 5]; at++) {
            ps_intrusive_drop(items[at]);
        }
        CHECK_EQ(source.live_bytes, 0);
    }
}

struct log {
    size_t recycled;
    size_t ended;
    struct ps_intrusive_item *keep;
};

static void note_recycle(struct ps_intrusive_item *item, void *context) {
    struct log *log = context;
    log->recycled++;
    CHECK_EQ(item->count, 1);
    ps_intrusive_take(item); /* a reference for a while is no second end */
    ps_intrusive_drop(item);
    if (log->keep == item) {
        ps_intrusive_take(item);
    }
}

static void note_end(struct ps_intrusive_item *item, void *context) {
    CHECK_EQ(item->count, 0);
    ((struct log *)context)->ended++;
}

TEST(recycle_runs_at_the_last_drop_and_end_when_memory_goes) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_intrusive_options options = options_of(&source);
    struct log log = {0};
    options.recycle = note_recycle;
    options.end = note_end;
    options.context = &log;
    struct ps_intrusive pool;
    REQUIRE(ps_intrusive_init(&pool, &options));
    struct ps_intrusive_item *a = ps_intrusive_alloc(&pool);
    struct ps_intrusive_item *b = ps_intrusive_alloc(&pool);
    struct ps_intrusive_item *never_built = ps_intrusive_alloc(&pool);
    a->is_built = 1;
    b->is_built = 1;
    ps_intrusive_drop(never_built);
    ps_intrusive_take(a);
    ps_intrusive_drop(a);
    CHECK_EQ(log.recycled, 1);
    ps_intrusive_drop(a);
    CHECK_EQ(log.recycled, 2);
    log.keep = b;
    ps_intrusive_drop(b);
    CHECK_EQ(b->count, 1);
    log.keep = NULL;
    ps_intrusive_destroy(&pool);
    CHECK_EQ(log.ended, 0);
    CHECK(source.live_bytes > 0);
    ps_intrusive_drop(b);
    CHECK_EQ(log.ended, 2);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(clear_starts_anew_and_leaves_live_items_alone) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_intrusive_options options = options_of(&source);
    struct ps_intrusive pool;
    REQUIRE(ps_intrusive_init(&pool, &options));
    struct ps_intrusive_item *old = ps_intrusive_alloc(&pool);
    old->is_built = 1;
    ps_intrusive_reset(&pool);
    struct ps_intrusive_item *young = ps_intrusive_alloc(&pool);
    CHECK(young != old);
    CHECK_EQ(young->is_built, 0);
    struct ps_intrusive_stats stats;
    ps_intrusive_stats(&pool, &stats);
    CHECK_EQ(stats.live_items, 1);
    struct ps_intrusive moved;
    ps_intrusive_move(&moved, &pool);
    ps_intrusive_stats(&pool, &stats);
    CHECK_EQ(stats.live_items, 0);
    size_t both = source.live_bytes;
    ps_intrusive_drop(old);
    CHECK_CMP(source.live_bytes, <, both);
    ps_intrusive_drop(young);
    ps_intrusive_destroy(&moved);
    ps_intrusive_destroy(&pool);
    CHECK_EQ(source.live_bytes, 0);
}

TEST(a_failing_source_leaves_the_pool_as_it_was) {
    NEEDS_CHUNKS();
    for (size_t fail_at = 1; fail_at < 12; fail_at++) {
        struct counting_source source = new_source(SIZE_MAX);
        struct ps_intrusive_options options = options_of(&source);
        options.chunks.first_bytes = 4096;
        options.chunks.max_bytes = 4096;
        struct ps_intrusive pool;
        source.calls_max = fail_at - 1;
        REQUIRE(ps_intrusive_init(&pool, &options));
        static struct ps_intrusive_item *items[2000];
        errno = 0;
        size_t count = exhaust(&pool, items, 2000);
        CHECK_EQ(errno, ENOMEM);
        CHECK_EQ(count == 0, fail_at == 1);
        CHECK(!ps_intrusive_is_exhausted(&pool));
        CHECK(!ps_intrusive_reserve(&pool, 2000));
        CHECK(ps_intrusive_check(&pool));
        source.calls_max = SIZE_MAX;
        CHECK((items[count] = ps_intrusive_alloc(&pool)) != NULL);
        for (size_t i = 0; i <= count; i++) {
            ps_intrusive_drop(items[i]);
        }
        ps_intrusive_destroy(&pool);
        CHECK_EQ(source.live_bytes, 0);
    }
}

TEST(random_calls_agree_with_a_model) {
    enum { COUNT = 300 };
    static struct message *messages[COUNT];
    static uint32_t counts[COUNT];
    struct ps_intrusive pool;
    struct ps_intrusive_options options = {.bytes = sizeof(struct message),
                                           .item_offset = offsetof(struct message, item),
                                           .max_items = COUNT - 20};
    REQUIRE(ps_intrusive_init(&pool, &options));
    size_t live = 0;
    for (size_t step = 0; step < 100000; step++) {
        size_t at = unit_random() % COUNT;
        if (counts[at] == 0) {
            messages[at] = message_of(ps_intrusive_alloc(&pool));
            CHECK_EQ(messages[at] == NULL, live == COUNT - 20);
            if (messages[at] == NULL) {
                continue;
            }
            memset(messages[at]->text, (int)at, sizeof messages[at]->text);
            messages[at]->before = (long)at;
            counts[at] = 1;
            live++;
        } else if (unit_random() % 3 == 0) {
            ps_intrusive_take(&messages[at]->item);
            counts[at]++;
        } else {
            CHECK_EQ(messages[at]->before, at);
            CHECK_EQ(messages[at]->text[99], (char)at);
            CHECK_EQ(messages[at]->item.count, counts[at]);
            ps_intrusive_drop(&messages[at]->item);
            live -= --counts[at] == 0;
        }
        if (step % 5000 == 0) {
            struct ps_intrusive_stats stats;
            ps_intrusive_stats(&pool, &stats);
            CHECK_EQ(stats.live_items, live);
            CHECK(ps_intrusive_check(&pool));
        }
    }
    ps_intrusive_destroy(&pool);
    for (size_t at = 0; at < COUNT; at++) {
        for (; counts[at] > 0; counts[at]--) {
            ps_intrusive_drop(&messages[at]->item);
        }
    }
}

TEST(a_drop_too_many_is_noticed) {
    NEEDS_CHUNKS();
    struct ps_intrusive pool;
    struct ps_intrusive_options options = {.bytes = 64};
    REQUIRE(ps_intrusive_init(&pool, &options));
    struct ps_intrusive_item *item = ps_intrusive_alloc(&pool);
    ps_intrusive_drop(item);
    CHECK_ABORTS(ps_intrusive_drop(item), "poolshim: drop of a reference that does not exist");
    CHECK_ABORTS(ps_intrusive_drop_shared(item),
                 "poolshim: drop of a reference that does not exist");
    ps_intrusive_destroy(&pool);
}

TEST(an_item_of_no_pool_only_counts) {
    struct ps_intrusive_item item = {0};
    ps_intrusive_take(&item);
    ps_intrusive_drop(&item);
    CHECK_EQ(item.count, 0);
}

DEBUG_ALL(checked_pools_behave_the_same, "check")

UNIT_MAIN
