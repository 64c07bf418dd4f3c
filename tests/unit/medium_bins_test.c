// marks: slow
// flags: -O2
// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Medium blocks that a thread caches: reuse, lengths, how many, return, misuse, forks. */
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/medium_cache.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/engine.h"
#include "tests/unit/fork_step.h"
#include "tests/unit/worker.h"

#define BLOCKS 100
#define LONGEST ((size_t)PS_MEDIUM_LONGEST << PS_MEDIUM_PAGE_SHIFT)

static struct live_block blocks[BLOCKS];
static uint64_t state = 88172645463325252u;

static size_t size_to_64_kib(void) { return 8193 + engine_random(&state) % (56 * KIB); }
static size_t any_size(void) { return 8193 + engine_random(&state) % (LONGEST - 8192); }

static struct ps_medium_cache *cache(void) { return &ps_thread.own->medium; }

static size_t kept_pages(void) { return ps_medium_cache_pages(cache()); }

static size_t takes(void) { return ps_medium_cache_takes(cache()) - cache()->taken; }

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
    CHECK_EQ(engine_census().run_cached_bytes, 0);
    check_live_blocks(0);
}

/* The sum is that of the blocks; each is cached, none is live or in two places. */
static void check_cache(void) {
    size_t pages = 0;
    for (size_t bin = 1; bin <= PS_MEDIUM_LONGEST; bin++) {
        CHECK_CMP(cache()->counts[bin], <=, PS_MEDIUM_BIN_BLOCKS);
        for (size_t i = 0; i < cache()->counts[bin]; i++) {
            const void *address = cache()->blocks[bin][i];
            CHECK_EQ(*ps_medium_mark(ps_page_map_slot(address), address), bin | PS_MEDIUM_WAITS);
            for (size_t live = 0; live < BLOCKS; live++) {
                CHECK(blocks[live].address != address);
            }
            for (size_t other = 0; other < i; other++) {
                CHECK(cache()->blocks[bin][other] != address);
            }
            pages += bin;
        }
    }
    CHECK_EQ(pages, kept_pages());
}

/* A bin that has blocks. */
static size_t filled_bin(void) {
    size_t bin = 1;
    while (cache()->counts[bin] == 0) {
        bin++;
        REQUIRE(bin <= PS_MEDIUM_LONGEST);
    }
    return bin;
}

FRESH_TEST(sizes_that_change_from_request_to_request_take_the_lock_seldom) {
    ps_engine_start();
    replace(6000, size_to_64_kib);
    size_t before = takes();
    for (size_t n = 0; n < 4000; n++) {
        replace(1, size_to_64_kib);
        CHECK_CMP(kept_pages(), <=, PS_MEDIUM_PAGES_MOST);
        if (n % 100 == 0) {
            check_cache();
            CHECK_EQ(kept_pages() << PS_MEDIUM_PAGE_SHIFT, engine_census().run_cached_bytes);
        }
    }
    CHECK_CMP(takes() - before, >, 3200);
    tear_down();
}

FRESH_TEST(a_cache_keeps_a_page_for_each_eight_requests_that_it_has_served) {
    ps_engine_start();
    size_t most = 0;
    for (size_t n = 0; n < 12000; n++) {
        size_t limit = ps_max(takes() / PS_MEDIUM_TAKES_A_PAGE, PS_MEDIUM_PAGES_FIRST);
        replace(1, size_to_64_kib);
        CHECK_CMP(kept_pages(), <=, ps_max(limit, most));
        most = ps_max(most, kept_pages());
        CHECK_CMP(most, <=, PS_MEDIUM_PAGES_MOST);
    }
    CHECK_CMP(most, >, PS_MEDIUM_PAGES_MOST / 2);
    THEN("it begins again when all has returned");
    ps_medium_flush(ps_thread.own);
    CHECK_EQ(kept_pages(), 0);
    replace(100, size_to_64_kib);
    CHECK_CMP(kept_pages(), >, 0);
    CHECK_CMP(kept_pages(), <=, PS_MEDIUM_PAGES_FIRST);
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

FRESH_TEST(the_shortest_block_that_suits_serves_a_request) {
    ps_engine_start();
    for (int i = 0; i < 1000; i++) { /* so that both may be cached */
        ps_heap_free(ps_heap_alloc(9000));
    }
    void *made[2];
    for (size_t i = 0; i < 2; i++) {
        made[i] = ps_heap_alloc((17 + i) << PS_MEDIUM_PAGE_SHIFT);
    }
    for (size_t i = 0; i < 2; i++) {
        ps_heap_free(made[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        CHECK_PTR_EQ(ps_heap_alloc(16 << PS_MEDIUM_PAGE_SHIFT), made[i]);
    }
    for (size_t i = 0; i < 2; i++) {
        ps_heap_free(made[i]);
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

/* Without a second thread no other one would return the cached blocks. */
FRESH_TEST(a_thread_that_only_frees_keeps_little) {
    static struct live_block many[2000];
    ps_engine_start();
    live_start_all(many, 2000, 20000);
    replace(6000, size_to_64_kib);
    CHECK_CMP(kept_pages(), >, PS_MEDIUM_PAGES_MOST / 4);
    live_end_all(many, 2000);
    CHECK_CMP(kept_pages(), <=, PS_MEDIUM_PAGES_FIRST);
    tear_down();
}

FRESH_TEST(no_more_than_at_first_is_cached_while_memory_is_short) {
    set_up();
    ps_retention_x_pressure = PS_PRESSURE_NEAR;
    ps_medium_flush(ps_thread.own);
    for (int i = 0; i < 4000; i++) {
        replace(1, size_to_64_kib);
        CHECK_CMP(kept_pages(), <=, PS_MEDIUM_LONGEST); /* one longer block is possible */
    }
    ps_retention_x_pressure = PS_PRESSURE_NONE;
    tear_down();
}

static void make_a_heap(void *unused) {
    (void)unused;
    ps_heap_free(ps_heap_alloc(20000));
}

/* fake_os has two processors. */
FRESH_TEST(threads_share_what_the_processors_may_have) {
    enum { WORKERS = 15 };
    static struct worker workers[WORKERS];
    set_up();
    CHECK_CMP(ps_background_share(PS_MEDIUM_PAGES_OF_CPU), >=, PS_MEDIUM_PAGES_MOST);
    for (size_t i = 0; i < WORKERS; i++) {
        ps_background_thread_created();
        worker_start(&workers[i]);
        worker_do(&workers[i], make_a_heap, NULL);
    }
    size_t share = ps_background_share(PS_MEDIUM_PAGES_OF_CPU);
    CHECK_CMP(share, <=, PS_MEDIUM_PAGES_OF_CPU * ps_os_cpus() / ps_background_threads());
    CHECK_CMP(share, <, PS_MEDIUM_PAGES_MOST);
    for (size_t n = 0; n < 6000; n++) {
        replace(1, size_to_64_kib);
        CHECK_CMP(n < 100 ? 0 : kept_pages(), <=, ps_max(share, PS_MEDIUM_PAGES_FIRST));
    }
    for (size_t i = 0; i < WORKERS; i++) {
        worker_stop(&workers[i]);
    }
    tear_down();
}

FRESH_TEST(a_second_free_of_a_cached_block_is_reported) {
    set_up();
    end_all();
    CHECK_ABORTS(ps_heap_free(cache()->blocks[filled_bin()][0]), "poolshim: double free of 0x");
}

/* ---- forks after each instruction of a thread that uses the cache ---- */

static void fill_the_cache(void) { replace(3000, any_size); }

static void use_the_cache(void) {
    enum { COUNT = 12 };
    static void *made[COUNT];
    for (size_t i = 0; i < COUNT; i++) {
        made[i] = ps_heap_alloc(12 * KIB + i * 12 * KIB);
    }
    for (size_t i = 0; i < COUNT; i++) {
        void *block = made[i];
        made[i] = NULL;
        ps_heap_free(block);
    }
    ps_heap_give_up();
}

/* No block is cached twice, nor while it is live, and all can be used, except those that the thread
 * was returning. */
static void check_and_use(void) {
    size_t leaving = 16; /* as in medium_cache.c */
    replace(200, any_size);
    check_cache();
    end_all();
    ps_heap_trim(0);
    CHECK_CMP(engine_census().run_cached_bytes, <=, leaving * LONGEST);
}

FRESH_TEST(the_child_of_a_fork_finds_each_block_once) {
    ps_engine_start();
    fork_at_each_step(fill_the_cache, use_the_cache, check_and_use, 199);
}

UNIT_MAIN
