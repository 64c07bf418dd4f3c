// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Medium blocks that a processor keeps: reuse, lengths, bounds, return, misuse, forks. */
#include "pools/engine/heap/cpu_medium.h"
#include "pools/engine/heap/cpu_return.h"
#include "pools/engine/heap/medium_cache.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/page/medium_regions.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/engine.h"
#include "tests/unit/fork_step.h"
#include "tests/unit/worker.h"

#include <sys/wait.h>

#define BLOCKS 100
#define ASKS_FIRST 256 /* as in medium_cache.c */
#define LONGEST ((size_t)PS_CPU_MEDIUM_LONGEST << PS_MEDIUM_PAGE_SHIFT)
#define MOST ((size_t)PS_CPU_MEDIUM_PAGES << PS_MEDIUM_PAGE_SHIFT)

static struct live_block blocks[BLOCKS];
static uint64_t state = 88172645463325252u;

static size_t size_to_64_kib(void) { return 8193 + engine_random(&state) % (56 * KIB); }
static size_t any_size(void) { return 8193 + engine_random(&state) % (LONGEST - 8192); }

static struct ps_cpu_medium *cache(void) { return ps_cpu_x_mediums[0]; }

static size_t cached_bytes(void) {
    return cache() != NULL ? (size_t)cache()->x_pages << PS_MEDIUM_PAGE_SHIFT : 0;
}

static void replace(size_t count, size_t (*size)(void)) {
    for (size_t n = 0; n < count; n++) {
        size_t i = engine_random(&state) % BLOCKS;
        if (blocks[i].address != NULL) {
            live_end(&blocks[i]);
        }
        size_t bytes = size();
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, n);
    }
}

static void end_all(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        if (blocks[i].address != NULL) {
            live_end(&blocks[i]);
        }
    }
}

static void set_up(void) {
    ps_engine_start();
    replace(4000, any_size);
}

static void tear_down(void) {
    end_all();
    ps_heap_trim(0);
    CHECK_EQ(cached_bytes(), 0);
    CHECK_EQ(engine_census().run_cached_bytes, 0);
    check_live_blocks(0);
}

static void tick(uint64_t ms) {
    fake_os_advance_ms(ms);
    for (int i = 0; i < 4; i++) { /* a round is over */
        (void)ps_cpu_return_tick(ps_os_now_ms(), ps_remote_return);
    }
}

/* A bin says what it holds, and the sum is that of the blocks. */
static void check_cache(void) {
    size_t pages = 0;
    for (size_t bin = 0; bin < PS_CPU_MEDIUM_BINS; bin++) {
        for (size_t i = 0; i < cache()->x_count[bin]; i++) {
            ps_medium_block block = cache()->blocks[bin][i];
            const void *address = ps_medium_address_of(block);
            const uint8_t *mark = ps_medium_mark(ps_page_map_slot(address), address);
            CHECK_EQ(*mark, ps_medium_pages_of(block) | PS_MEDIUM_WAITS);
            CHECK_CMP(ps_medium_pages_of(block), <=, PS_CPU_MEDIUM_LONGEST);
            for (size_t live = 0; live < BLOCKS; live++) {
                CHECK(blocks[live].address != address);
            }
            pages += ps_medium_pages_of(block);
        }
    }
    CHECK_EQ(pages, cache()->x_pages);
}

/* A quarter of the requests are served by what the thread keeps, nine of ten without the lock. */
FRESH_TEST(sizes_that_change_from_request_to_request_take_the_lock_seldom) {
    ps_engine_start();
    replace(4000, size_to_64_kib);
    CHECK(cache() != NULL);
    size_t by_thread = 0;
    size_t by_processor = 0;
    for (size_t n = 0; n < 4000; n++) {
        size_t i = engine_random(&state) % BLOCKS;
        size_t bytes = size_to_64_kib();
        if (blocks[i].address != NULL) {
            live_end(&blocks[i]);
        }
        void *expected[PS_MEDIUM_CACHE_LIMIT];
        size_t kept = ps_medium_cache_count(&ps_thread.own->medium);
        for (size_t k = 0; k < kept; k++) {
            expected[k] = ps_medium_address_of(ps_thread.own->medium.entries[k].block);
        }
        size_t pages = cache()->x_pages;
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, n);
        bool is_own = false;
        for (size_t k = 0; k < kept; k++) {
            is_own |= expected[k] == blocks[i].address;
        }
        by_thread += is_own;
        by_processor += cache()->x_pages < pages;
        CHECK_CMP(cached_bytes(), <=, MOST);
        if (n % 100 == 0) {
            check_cache();
        }
    }
    CHECK_CMP(by_thread, <, 1600);
    CHECK_CMP(by_thread + by_processor, >, 3200);
    tear_down();
}

FRESH_TEST(a_block_is_at_most_an_eighth_longer_than_was_asked_for) {
    set_up();
    for (int n = 0; n < 2000; n++) {
        size_t bytes = any_size();
        void *block = ps_heap_alloc(bytes);
        size_t pages = (bytes + PS_MEDIUM_PAGE_BYTES - 1) >> PS_MEDIUM_PAGE_SHIFT;
        size_t usable = ps_block_usable(block);
        CHECK_CMP(usable, >=, bytes);
        CHECK_CMP(usable, <=, (pages + pages / 8) << PS_MEDIUM_PAGE_SHIFT);
        replace(1, any_size);
        ps_heap_free(block);
    }
    tear_down();
}

FRESH_TEST(a_cached_block_is_no_zeroes) {
    set_up();
    for (int n = 0; n < 1000; n++) {
        size_t bytes = any_size();
        unsigned char *block = ps_block_zalloc(bytes);
        CHECK(engine_is_zero(block, bytes));
        memset(block, 0xff, bytes);
        replace(1, any_size);
        ps_heap_free(block);
    }
    tear_down();
}

FRESH_TEST(a_few_requests_keep_nothing) {
    ps_engine_start();
    replace(ASKS_FIRST, any_size);
    end_all();
    CHECK(cache() == NULL);
    CHECK_CMP(engine_census().run_cached_bytes, <=,
              (size_t)PS_MEDIUM_CACHE_PAGES << PS_MEDIUM_PAGE_SHIFT);
    replace(2 * ASKS_FIRST, any_size);
    CHECK(cache() != NULL);
    CHECK_CMP(cache()->x_limit, <=, 2 * ASKS_FIRST / PS_CPU_MEDIUM_ASKS_A_PAGE);
    CHECK_CMP(cache()->x_pages, <=, cache()->x_limit);
    tear_down();
}

FRESH_TEST(unused_blocks_return_to_their_regions) {
    set_up();
    CHECK_CMP(cached_bytes(), >, 0);
    end_all();
    struct ps_medium_counts before;
    struct ps_medium_counts after;
    ps_medium_flush(ps_thread.own);
    ps_medium_count(&before);
    size_t cached = cached_bytes();
    for (uint64_t passed_ms = 0; cached_bytes() != 0; passed_ms += 10) {
        tick(10);
        REQUIRE(passed_ms <= 3 * PS_RETENTION_SCAN_MS);
    }
    ps_medium_count(&after);
    uint64_t pages = after.dirty_pages + after.clean_pages +
                     (before.region_count - after.region_count) * PS_PAGE_BITS;
    CHECK_EQ(pages - before.dirty_pages - before.clean_pages, cached >> PS_MEDIUM_PAGE_SHIFT);
    tick(PS_RETENTION_SCAN_MS);
    CHECK_EQ(cache()->x_limit, 0);
    CHECK_EQ(ps_cpu_return_tick(ps_os_now_ms(), ps_remote_return), 0);
    tear_down();
}

static size_t filled_bin(size_t least) {
    size_t bin = 0;
    while (cache()->x_count[bin] < least) {
        bin++;
        REQUIRE(bin < PS_CPU_MEDIUM_BINS);
    }
    return bin;
}

FRESH_TEST(a_block_that_was_used_since_stays) {
    set_up();
    end_all();
    tick(PS_RETENTION_SCAN_MS); /* the counts begin, the limit stays */
    size_t bin = filled_bin(1);
    size_t pages = ps_medium_pages_of(cache()->blocks[bin][0]);
    ps_medium_block used = ps_cpu_medium_take(0, pages, false);
    REQUIRE(used != 0);
    CHECK_EQ(ps_cpu_medium_put(0, &used, 1), 0);
    tick(PS_RETENTION_SCAN_MS);
    CHECK_EQ(cache()->x_pages, ps_medium_pages_of(used));
    CHECK_EQ(ps_cpu_medium_take(0, pages, false), used);
    ps_medium_return_waiting(&used, 1);
    tear_down();
}

static size_t one_size(void) { return 40000; }

FRESH_TEST(lengths_that_are_not_asked_for_return_while_others_stay) {
    set_up();
    for (int i = 0; i < 3; i++) {
        for (int n = 0; n < 500; n++) { /* more than the thread keeps, freed and asked for again */
            replace(1, one_size);
        }
        end_all();
        tick(PS_RETENTION_SCAN_MS);
    }
    for (size_t bin = 0; bin < PS_CPU_MEDIUM_BINS; bin++) {
        for (size_t i = 0; i < cache()->x_count[bin]; i++) {
            CHECK_EQ(ps_medium_pages_of(cache()->blocks[bin][i]), 10);
        }
    }
    tear_down();
}

FRESH_TEST(no_block_is_cached_while_memory_is_short) {
    set_up();
    ps_retention_x_pressure = PS_PRESSURE_NEAR;
    for (int i = 0; i < 100; i++) {
        tick(20);
    }
    CHECK_EQ(cached_bytes(), 0);
    replace(300, any_size);
    CHECK_EQ(cached_bytes(), 0);
    ps_retention_x_pressure = PS_PRESSURE_NONE;
    tear_down();
}

FRESH_TEST(a_second_free_of_a_cached_block_is_reported) {
    set_up();
    CHECK_ABORTS(ps_heap_free(ps_medium_address_of(cache()->blocks[filled_bin(1)][0])),
                 "poolshim: double free of 0x");
}

static void replace_there(void *unused) {
    (void)unused;
    replace(2000, any_size);
}

FRESH_TEST(threads_of_a_processor_share_its_cache_and_another_has_its_own) {
    struct worker other;
    set_up();
    worker_start(&other);
    worker_do(&other, replace_there, NULL);
    check_cache();
    fake_os_set_cpu(1);
    worker_do(&other, replace_there, NULL); /* which asks now and then where it runs */
    size_t before = cached_bytes();
    worker_do(&other, replace_there, NULL);
    CHECK_EQ(cached_bytes(), before);
    CHECK(ps_cpu_x_mediums[1] != NULL);
    fake_os_set_cpu(0);
    worker_stop(&other);
    tear_down();
    CHECK_EQ(ps_cpu_x_mediums[1]->x_pages, 0);
}

FRESH_TEST(a_held_cache_is_left_alone) {
    set_up();
    size_t before = cached_bytes();
    ps_store_relaxed(&cache()->lock.x_holder, 12345u);
    replace(300, any_size);
    tick(2 * PS_RETENTION_SCAN_MS);
    CHECK_EQ(cached_bytes(), before);
    ps_store_relaxed(&cache()->lock.x_holder, 0u);
    tear_down();
}

FRESH_TEST(a_child_uses_the_cache_that_a_thread_of_its_parent_held) {
    set_up();
    ps_store_relaxed(&cache()->lock.x_holder, 12345u);
    size_t bin = filled_bin(1);
    cache()->lock.changing = (uint32_t)bin;
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        CHECK_EQ(cache()->x_count[bin], 0); /* given up: its blocks may stand there twice */
        check_cache();
        replace(300, any_size);
        check_cache();
        end_all();
        ps_heap_trim(0);
        CHECK_EQ(cached_bytes(), 0);
        _exit(unit_failures == 0 && cache()->lock.x_holder == 0 ? 0 : 1);
    }
    int status;
    REQUIRE(waitpid(pid, &status, 0) == pid);
    CHECK_EQ(status, 0);
    ps_store_relaxed(&cache()->lock.x_holder, 0u);
    tear_down();
}

/* ---- forks after each instruction of a thread that uses the cache ---- */

static void fill_the_cache(void) {
    replace(3000, any_size);
    ps_medium_flush(ps_thread.own);
}

static void use_the_cache(void) {
    static void *made[PS_MEDIUM_CACHE_LIMIT];
    for (size_t i = 0; i < PS_MEDIUM_CACHE_LIMIT; i++) {
        made[i] = ps_heap_alloc(12 * KIB + i * 12 * KIB);
    }
    for (size_t i = 0; i < PS_MEDIUM_CACHE_LIMIT; i++) { /* half go to the processor's */
        void *block = made[i];
        made[i] = NULL;
        ps_heap_free(block);
    }
    tick(2 * PS_RETENTION_SCAN_MS);
    ps_heap_give_up();
}

/* No block is cached twice, nor while it is live, and all can be used. */
static void check_and_use(void) {
    replace(200, any_size);
    check_cache();
    end_all();
    ps_heap_trim(0);
    CHECK_EQ(cached_bytes(), 0);
}

FRESH_TEST(the_child_of_a_fork_finds_each_block_once) {
    ps_engine_start();
    fork_at_each_step(fill_the_cache, use_the_cache, check_and_use, 199);
}

UNIT_MAIN
