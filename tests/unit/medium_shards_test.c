// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Shards of medium blocks: page/medium_regions.h. */
#include "pools/engine/page/medium_regions.h"

#include "pools/engine/os/os.h"
#include "pools/engine/page/page_cache.h"
#include "tests/unit/fake_os.h"
#include "tests/unit/fresh.h"
#include "tests/unit/region_check.h"
#include "tests/unit/worker.h"

#include <sched.h>

#define SHARDS 4
#define DELAY_MS 1000
#define JUDGED_SECTIONS 1024
#define CONTENDED_WAITS 64

static struct worker workers[SHARDS];

static void start(uint32_t shards) {
    static const struct ps_config config = PS_CONFIG_DEFAULT;
    ps_page_cache_start(&config);
    ps_retention_set_delay(DELAY_MS);
    ps_medium_set_spread(shards);
    for (size_t i = 0; i < SHARDS; i++) {
        worker_start(&workers[i]);
    }
}

static void stop(void) {
    for (size_t i = 0; i < SHARDS; i++) {
        worker_stop(&workers[i]);
    }
    check_regions(0);
}

/* ---- blocks by threads ---- */

struct block {
    size_t pages;
    char *base;
};

static void take_block(void *argument) {
    struct block *block = argument;
    bool is_zero;
    block->base = ps_medium_take(block->pages, 1, &is_zero);
    CHECK(block->base != NULL);
}

static void give_block(void *argument) {
    const struct block *block = argument;
    ps_medium_block whole = ps_medium_block_of(block->base, block->pages);
    ps_medium_give(&whole, 1);
}

static struct block block_of(size_t thread, size_t pages) {
    struct block block = {.pages = pages};
    worker_do(&workers[thread], take_block, &block);
    return block;
}

static void give_by(size_t thread, struct block block) {
    worker_do(&workers[thread], give_block, &block);
}

static const char *region_base(struct block block) {
    char *granule = (char *)((uintptr_t)block.base & ~(uintptr_t)(PS_GRANULE_BYTES - 1));
    return granule - ps_page_map_slot(granule)->run.back * PS_GRANULE_BYTES;
}

static struct ps_medium_counts counted(void) {
    struct ps_medium_counts counts;
    ps_medium_count(&counts);
    return counts;
}

FRESH_TEST(one_shard_serves_all_threads) {
    start(1);
    const char *region = region_base(block_of(0, 10));
    for (size_t i = 1; i < SHARDS; i++) {
        CHECK_PTR_EQ(region_base(block_of(i, 10)), region);
    }
    CHECK(ps_medium_shard_at(1) == NULL);
    stop();
}

FRESH_TEST(threads_of_several_shards_have_regions_of_their_own) {
    start(SHARDS);
    struct block blocks[SHARDS];
    for (size_t i = 0; i < SHARDS; i++) {
        blocks[i] = block_of(i, 10);
        for (size_t k = 0; k < i; k++) {
            CHECK(region_base(blocks[k]) != region_base(blocks[i]));
        }
        CHECK_PTR_EQ(region_base(block_of(i, 10)), region_base(blocks[i]));
    }
    CHECK_EQ(counted().region_count, SHARDS);
    CHECK(ps_medium_shard_at(SHARDS - 1) != NULL && ps_medium_shard_at(SHARDS) == NULL);
    stop();
}

FRESH_TEST(a_block_returns_to_its_region_whichever_thread_frees_it) {
    start(SHARDS);
    struct block kept = block_of(0, 10);
    struct block block = block_of(0, 20);
    give_by(3, block);
    CHECK_EQ(counted().region_count, 1);
    CHECK_PTR_EQ(block_of(0, 20).base, block.base);
    CHECK_PTR_EQ(region_base(kept), region_base(block));
    stop();
}

FRESH_TEST(blocks_of_several_shards_return_in_one_call) {
    start(SHARDS);
    ps_medium_block blocks[2 * SHARDS];
    for (size_t i = 0; i < 2 * SHARDS; i++) {
        blocks[i] = ps_medium_block_of(block_of(i % SHARDS, 10 + i).base, 10 + i);
    }
    ps_medium_give(blocks, 2 * SHARDS);
    CHECK_EQ(counted().dirty_pages, 10 + 11 + 12 + 13 + 14 + 15 + 16 + 17);
    ps_medium_drop_empty(0);
    CHECK_EQ(counted().region_count, 0);
    stop();
}

/* ---- idle pages ---- */

/* Leaves so many dirty pages in the shard of thread 0, and no other. */
static void make_idle(size_t pages) {
    struct block blocks[8];
    size_t count = 0;
    (void)block_of(0, 100); /* keeps its region alive */
    for (size_t made = 0; made < pages; made += 64) {
        blocks[count++] = block_of(0, 64);
    }
    while (count != 0) {
        give_by(0, blocks[--count]);
    }
}

FRESH_TEST(pages_that_are_idle_in_another_shard_serve_before_a_new_region) {
    start(SHARDS);
    make_idle(PS_PAGE_BITS);
    uint64_t regions = counted().region_count;
    uint64_t dirty = counted().dirty_pages;
    (void)block_of(1, 64);
    CHECK_EQ(counted().region_count, regions);
    CHECK_EQ(counted().dirty_pages, dirty - 64);
    stop();
}

FRESH_TEST(a_few_idle_pages_of_another_shard_stay_there) {
    start(SHARDS);
    make_idle(PS_PAGE_BITS / 2);
    uint64_t regions = counted().region_count;
    (void)block_of(1, 64);
    CHECK_EQ(counted().region_count, regions + 1);
    CHECK_EQ(counted().dirty_pages, PS_PAGE_BITS / 2);
    stop();
}

FRESH_TEST(a_shard_whose_lock_is_held_is_passed_over) {
    start(SHARDS);
    make_idle(PS_PAGE_BITS);
    uint64_t regions = counted().region_count;
    struct ps_medium_shard *held[SHARDS];
    size_t count = 0;
    for (size_t i = 0; ps_medium_shard_at(i) != NULL; i++) {
        if (ps_load_relaxed(&ps_medium_shard_at(i)->x_dirty) != 0) {
            held[count++] = ps_medium_shard_at(i);
        }
    }
    CHECK_EQ(count, 1);
    ps_lock_acquire(&held[0]->lock);
    (void)block_of(1, 64);
    ps_lock_release(&held[0]->lock);
    CHECK_EQ(counted().region_count, regions + 1);
    stop();
}

FRESH_TEST(any_shard_serves_when_memory_is_exhausted) {
    start(SHARDS);
    struct block kept = block_of(0, 100);
    while (ps_page_cache_take(1, 1) != NULL) { /* ends: the addresses are used up */
        fake_os_refuse(FAKE_OS_BIT(FAKE_OS_RESERVE) | FAKE_OS_BIT(FAKE_OS_PROTECT));
    }
    CHECK_PTR_EQ(region_base(block_of(2, 100)), region_base(kept));
    fake_os_refuse(0);
    stop();
}

/* ---- purge ---- */

static void make_dirty_in_all(void) {
    for (size_t i = 0; i < SHARDS; i++) {
        (void)block_of(i, 10);
        give_by(i, block_of(i, 20 + i));
    }
    CHECK_EQ(counted().dirty_pages, 20 + 21 + 22 + 23);
}

FRESH_TEST(all_shards_are_purged_at_once) {
    start(SHARDS);
    make_dirty_in_all();
    CHECK(ps_medium_purge_all());
    CHECK_EQ(counted().dirty_pages, 0);
    CHECK(!ps_medium_purge_all());
    stop();
}

FRESH_TEST(what_a_shard_has_used_meanwhile_stays_and_the_rest_is_purged) {
    start(SHARDS);
    ps_medium_purge_tick(ps_os_now_ms());
    make_dirty_in_all();
    for (size_t quarter = 0; quarter < 8; quarter++) {
        fake_os_advance_ms(DELAY_MS / 4);
        give_by(2, block_of(2, 22));
        for (size_t step = 0; step < 4; step++) {
            ps_medium_purge_tick(ps_os_now_ms());
        }
    }
    CHECK_EQ(counted().dirty_pages, 22);
    stop();
}

FRESH_TEST(refused_pages_of_all_shards_are_retried) {
    start(SHARDS);
    make_dirty_in_all();
    fake_os_refuse(FAKE_OS_BIT(FAKE_OS_PURGE));
    CHECK(!ps_medium_purge_all());
    CHECK_EQ(counted().refused_pages, counted().dirty_pages);
    fake_os_refuse(0);
    CHECK(ps_medium_purge_all());
    CHECK_EQ(counted().dirty_pages, 0);
    stop();
}

/* ---- number of shards ---- */

/* Locks the first shard until another thread sleeps on the lock, once per request. */
static uint32_t x_holds; /* 1: requested, 2: locked, 0: neither; 3: end */

static void *hold(void *unused) {
    (void)unused;
    struct ps_lock *lock = &ps_medium_shard_at(0)->lock;
    for (uint32_t asked = 0; asked != 3; asked = ps_load_acquire(&x_holds)) {
        if (asked != 1) {
            continue;
        }
        ps_lock_acquire(lock);
        ps_store_release(&x_holds, 2u);
        while ((ps_load_relaxed(&lock->x_state) & PS_LOCK_WAITERS) == 0) {
            sched_yield();
        }
        ps_store_release(&x_holds, 0u);
        ps_lock_release(lock);
    }
    return NULL;
}

/* Enters the first shard until its contention is judged once; blocks there so often. */
static void enter_waiting(size_t waits) {
    struct ps_medium_shard *shard = ps_medium_shard_at(0);
    pthread_t holder;
    x_holds = 0;
    REQUIRE(pthread_create(&holder, NULL, hold, NULL) == 0);
    for (size_t i = 0; i < JUDGED_SECTIONS; i++) {
        if (i < waits) {
            ps_store_release(&x_holds, 1u);
            while (ps_load_acquire(&x_holds) == 1) {
                sched_yield();
            }
        }
        ps_medium_shard_enter(shard);
        ps_medium_shard_leave(shard);
    }
    ps_store_release(&x_holds, 3u);
    pthread_join(holder, NULL);
}

FRESH_TEST(contention_doubles_the_shards_up_to_the_processors) {
    start(1);
    ps_medium_set_processors(7);
    enter_waiting(0); /* since the number changed */
    enter_waiting(CONTENDED_WAITS - 1);
    CHECK_EQ(ps_medium_spread(), 1);
    enter_waiting(CONTENDED_WAITS);
    CHECK_EQ(ps_medium_spread(), 2);
    WHEN("the waits were of the time before");
    enter_waiting(CONTENDED_WAITS);
    CHECK_EQ(ps_medium_spread(), 2);
    enter_waiting(CONTENDED_WAITS);
    CHECK_EQ(ps_medium_spread(), 4);
    enter_waiting(CONTENDED_WAITS);
    enter_waiting(CONTENDED_WAITS);
    CHECK_EQ(ps_medium_spread(), 4);
    stop();
}

FRESH_TEST(few_processors_have_one_shard) {
    start(1);
    ps_medium_set_processors(2);
    for (size_t i = 0; i < 3; i++) {
        enter_waiting(CONTENDED_WAITS);
    }
    CHECK_EQ(ps_medium_spread(), 1);
    stop();
}

UNIT_MAIN
