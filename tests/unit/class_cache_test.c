// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Class caches: blocks above 1 KiB that a thread freed serve its next requests, up to a limit;
 * misuse of one is found as that of any free block; unused ones return.
 */
#include "pools/engine/heap/class_cache.h"

#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/engine.h"
#include "tests/unit/set_nodes.h"
#include "tests/unit/worker.h"

#define BYTES ((size_t)4096)
#define MOST PS_CLASS_CACHE_BLOCKS /* 31 of 4 KiB, which are less than PS_CLASS_CACHE_BYTES */
#define BLOCKS 100

static void *blocks[BLOCKS];

static size_t kept_of(size_t bytes) {
    return ps_class_cache_count(&ps_thread.own->class_caches[ps_size_class_of(bytes)]);
}
static size_t kept(void) { return kept_of(BYTES); }

static void allocate(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; i++) {
        blocks[i] = ps_heap_alloc(bytes);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 0xff, bytes);
    }
}

static void free_all(size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_heap_free(blocks[i]);
    }
}

static void *others[BLOCKS]; /* live blocks of the same class */
static size_t other_count;

/* Requests and frees in turn, until the limit of the cache is the highest; then it is empty. */
static void demand(size_t bytes) {
    for (other_count = 0; other_count < BLOCKS; other_count++) {
        others[other_count] = ps_heap_alloc(bytes);
    }
    for (int round = 0; round < 20; round++) {
        for (size_t i = 0; i < MOST; i++) {
            ps_heap_free(others[i]);
        }
        for (size_t i = 0; i < MOST; i++) {
            others[i] = ps_heap_alloc(bytes);
        }
    }
    CHECK_EQ(kept_of(bytes), 0);
}

static void free_others(void) {
    while (other_count > 0) {
        ps_heap_free(others[--other_count]);
    }
}

/* Frees so many blocks into a cache that has room for all of them. */
static void keep_of(size_t count, size_t bytes) {
    ps_engine_start();
    demand(bytes);
    other_count -= count;
    memcpy(blocks, others + other_count, count * sizeof *blocks);
    free_all(count);
    CHECK_EQ(kept_of(bytes), count);
}
static void keep(size_t count) { keep_of(count, BYTES); }

static void check_live(size_t count) {
    struct ps_census census = engine_census();
    CHECK_EQ(census_live_blocks(&census), count + other_count);
    CHECK_EQ(census.malloc_count - census.free_count, count + other_count);
}

static void flush(void) {
    free_others();
    ps_heap_trim(0);
    CHECK_EQ(kept(), 0);
    CHECK_EQ(engine_census().small_span_bytes, 0);
}

FRESH_TEST(what_was_freed_last_is_taken_first) {
    keep(3);
    check_live(0);
    uint64_t taken = engine_census().classes[ps_size_class_of(BYTES)].taken_blocks;
    for (size_t i = 3; i-- > 0;) {
        CHECK_PTR_EQ(ps_heap_alloc(BYTES), blocks[i]);
        check_live(3 - i);
    }
    CHECK_EQ(engine_census().classes[ps_size_class_of(BYTES)].taken_blocks, taken + 3);
    free_all(3);
    flush();
}

FRESH_TEST(requests_for_zeroed_and_for_aligned_blocks_take_them_too) {
    keep(2);
    unsigned char *zeroed = ps_block_zalloc(BYTES);
    CHECK_PTR_EQ(zeroed, blocks[1]);
    CHECK(engine_is_zero(zeroed, BYTES));
    CHECK_PTR_EQ(ps_block_alloc_aligned(BYTES, BYTES), blocks[0]);
    free_all(2);
    flush();
}

FRESH_TEST(a_cache_holds_so_many_blocks_and_no_more) {
    keep(MOST);
    ps_heap_free(others[--other_count]);
    CHECK_EQ(kept(), MOST);
    check_live(0);
    flush();
    keep_of(PS_CLASS_CACHE_BYTES / 8192, 8192);
    ps_heap_free(others[--other_count]);
    CHECK_EQ(kept_of(8192), PS_CLASS_CACHE_BYTES / 8192);
    flush();
}

FRESH_TEST(a_thread_that_only_frees_fills_none) {
    ps_engine_start();
    allocate(BLOCKS, BYTES);
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i]);
        CHECK_CMP(kept(), <=, 4);
    }
    flush();
}

FRESH_TEST(blocks_of_classes_that_serve_short_requests_have_none) {
    ps_engine_start();
    allocate(BLOCKS, PS_FEW_BYTES);
    free_all(BLOCKS);
    CHECK_EQ(kept_of(PS_FEW_BYTES), 0);
    CHECK_EQ(ps_class_cache_first_class, ps_size_class_of(PS_FEW_BYTES) + 1);
    flush();
}

/* ---- misuse ---- */

static void free_block(void *block) { ps_heap_free(block); }

static void free_in_another_thread(void *block) {
    struct worker worker;
    worker_start(&worker);
    worker_do(&worker, acquire_heap, NULL);
    worker_do(&worker, free_block, block);
    worker_stop(&worker);
}

FRESH_TEST(a_second_free_is_reported) {
    keep(2);
    CHECK_ABORTS(ps_heap_free(blocks[0]), "poolshim: double free of 0x");
    CHECK_ABORTS(ps_heap_free(blocks[1]), "poolshim: double free of 0x");
    CHECK_ABORTS(free_in_another_thread(blocks[0]), "poolshim: double free of 0x");
    CHECK_ABORTS(ps_block_usable(blocks[0]), "poolshim: size of free block 0x");
    CHECK_ABORTS(ps_block_resize(blocks[0], 2 * BYTES), "poolshim: realloc of free block 0x");
    flush();
}

FRESH_TEST(a_free_inside_of_a_block_or_of_one_that_was_never_granted_is_reported) {
    ps_engine_start();
    allocate(2, BYTES);
    char *next = (char *)blocks[1] + BYTES;
    CHECK_ABORTS(ps_heap_free((char *)blocks[0] + 16), "poolshim: free of interior pointer 0x");
    CHECK_ABORTS(ps_heap_free(next), "poolshim: double free of 0x");
    free_all(2);
    CHECK_ABORTS(ps_heap_free((char *)blocks[0] + 16), "poolshim: free of interior pointer 0x");
    flush();
}

FRESH_TEST(a_write_after_the_free_is_reported_when_the_block_leaves) {
    keep(1);
    memset(blocks[0], 0x55, 8);
    CHECK_ABORTS((void)ps_heap_alloc(BYTES), "poolshim: double free of, or write after free to 0x");
    CHECK_ABORTS(ps_heap_flush(), "poolshim: double free of, or write after free to 0x");
}

/* ---- returns ---- */

static void return_unused(void) {
    ps_thread_enter();
    ps_class_cache_return(ps_thread.own, PS_CLASS_CACHE_UNUSED, ps_remote_return);
    ps_thread_leave();
}

FRESH_TEST(what_was_not_used_since_the_last_return_returns_the_oldest_first) {
    keep(10);
    return_unused();
    CHECK_EQ(kept(), 10); /* more were taken before */
    for (size_t i = 10; i-- > 4;) {
        CHECK_PTR_EQ(ps_heap_alloc(BYTES), blocks[i]);
    }
    for (size_t i = 4; i < 10; i++) {
        ps_heap_free(blocks[i]);
    }
    return_unused();
    CHECK_EQ(kept(), 6);
    CHECK_PTR_EQ(ps_heap_alloc(BYTES), blocks[9]);
    ps_heap_free(blocks[9]);
    return_unused();
    CHECK_EQ(kept(), 1);
    return_unused();
    CHECK_EQ(kept(), 0);
    check_live(0);
    flush();
}

FRESH_TEST(a_thread_that_makes_no_other_calls_reads_the_clock_and_returns_them) {
    keep(10);
    for (int round = 0; round < 2; round++) {
        fake_os_advance_ms(PS_RETENTION_SCAN_MS);
        for (int i = 0; i < PS_CLASS_CACHE_TAKES_PER_TICK; i++) {
            ps_heap_free(ps_heap_alloc(BYTES));
        }
    }
    CHECK_EQ(kept(), 10); /* as many were taken */
    ps_heap_free(ps_heap_alloc(1300));
    for (int round = 0; round < 2; round++) {
        fake_os_advance_ms(PS_RETENTION_SCAN_MS);
        for (int i = 0; i < PS_CLASS_CACHE_TAKES_PER_TICK; i++) {
            ps_heap_free(ps_heap_alloc(1300));
        }
    }
    CHECK_EQ(kept(), 0);
    flush();
}

#define TABLE 20000

/* The blocks that are freed last lie in as many spans. */
FRESH_TEST(a_process_of_one_thread_that_frees_a_table_in_random_order_keeps_little) {
    static void *table[TABLE];
    uint64_t random = 1;
    ps_engine_start();
    for (size_t i = 0; i < 3 * TABLE; i++) {
        void **place = &table[engine_random(&random) % TABLE];
        ps_heap_free(*place);
        *place = ps_heap_alloc(1025 + engine_random(&random) % 7000);
    }
    uint64_t spans = engine_census().small_span_bytes;
    for (size_t i = TABLE - 1; i > 0; i--) {
        size_t other = engine_random(&random) % (i + 1);
        void *block = table[i];
        table[i] = table[other];
        table[other] = block;
    }
    for (size_t i = 0; i < TABLE; i++) {
        ps_heap_free(table[i]);
    }
    CHECK_CMP(spans, >, 60 * MIB);
    CHECK_CMP(engine_census().small_span_bytes, <, 8 * MIB);
}

FRESH_TEST(nothing_is_kept_while_memory_is_short) {
    keep(10);
    ps_retention_x_pressure = PS_PRESSURE_NEAR;
    ps_heap_flush();
    while (other_count > 0) {
        ps_heap_free(others[--other_count]);
        CHECK_EQ(kept(), 0);
    }
    ps_retention_x_pressure = PS_PRESSURE_NONE;
    flush();
}

FRESH_TEST(while_requests_are_counted_nothing_is_taken_and_soon_nothing_is_there) {
    keep(4);
    ps_alloc_set_refill_max(SIZE_MAX);
    void *other = ps_heap_alloc(BYTES);
    CHECK_EQ(kept(), 4);
    return_unused();
    return_unused();
    CHECK_EQ(kept(), 0);
    ps_heap_free(other);
    CHECK_EQ(kept(), 0);
    ps_alloc_set_refill_max(ps_size_class_max_bytes);
    other = ps_heap_alloc(BYTES);
    ps_heap_free(other);
    CHECK_EQ(kept(), 1);
    flush();
}

/* ---- other threads ---- */

static void allocate_there(void *bytes) { allocate(BLOCKS, *(size_t *)bytes); }

FRESH_TEST(blocks_of_another_thread_are_kept_and_return_to_its_spans) {
    struct worker owner;
    size_t bytes = BYTES;
    ps_engine_start();
    demand(BYTES);
    worker_start(&owner);
    worker_do(&owner, allocate_there, &bytes);
    uint64_t remote = engine_census().remote_free_count;
    for (size_t i = 0; i < 10; i++) {
        ps_heap_free(blocks[i]);
    }
    CHECK_EQ(kept(), 10);
    CHECK_EQ(engine_census().remote_free_count - remote, 10);
    check_live(BLOCKS - 10);
    CHECK_PTR_EQ(ps_heap_alloc(BYTES), blocks[9]);
    for (size_t i = 9; i < BLOCKS; i++) {
        ps_heap_free(blocks[i]);
    }
    check_live(0);
    CHECK_EQ(engine_census().remote_free_count - remote, BLOCKS + 1);
    worker_stop(&owner);
    flush();
}

FRESH_TEST(blocks_of_an_ended_thread_are_kept) {
    struct worker owner;
    size_t bytes = BYTES;
    ps_engine_start();
    worker_start(&owner);
    worker_do(&owner, allocate_there, &bytes);
    worker_stop(&owner);
    ps_heap_free(ps_heap_alloc(1));
    free_all(BLOCKS);
    check_live(0);
    CHECK_CMP(kept(), >, 0);
    flush();
}

static void keep_ten(void *unused) {
    (void)unused;
    keep(10);
    free_others();
}

FRESH_TEST(at_the_end_of_a_thread_all_return) {
    struct worker worker;
    ps_engine_start();
    acquire_heap(NULL); /* not the one of the thread that ends */
    worker_start(&worker);
    worker_do(&worker, keep_ten, NULL);
    worker_stop(&worker);
    check_live(0);
    ps_heap_trim(0);
    CHECK_EQ(engine_census().classes[ps_size_class_of(BYTES)].spans, 0);
}

FRESH_TEST(a_block_of_another_node_is_not_kept) {
    struct worker owner;
    size_t bytes = BYTES;
    ps_engine_start();
    set_nodes();
    fake_os_set_cpu(1);
    worker_start(&owner);
    worker_do(&owner, allocate_there, &bytes);
    ps_heap_free(ps_heap_alloc(1));
    ps_heap_free(blocks[0]);
    CHECK_EQ(kept(), 1);
    fake_os_set_cpu(0);
    ps_heap_free(blocks[1]);
    CHECK_EQ(kept(), 1);
    check_live(BLOCKS - 2);
    worker_stop(&owner);
}

/* ---- modes ---- */

FRESH_TEST(hardened_blocks_are_not_kept) {
    engine_config.harden = 1;
    ps_engine_start();
    allocate(BLOCKS, BYTES);
    free_all(BLOCKS);
    CHECK_EQ(kept(), 0);
}

/* ---- all of it ---- */

#define SLOTS 400
#define STEPS 40000

static struct live_block slots[2][SLOTS];

static void replace_at_random(void *argument) {
    size_t row = (size_t)argument;
    uint64_t random = 88172645463325252u + row;
    for (int step = 0; step < STEPS / FRESH_SLOWNESS; step++) {
        struct live_block *live = &slots[engine_random(&random) % 16 == 0 ? 1 - row : row]
                                        [engine_random(&random) % SLOTS];
        if (live->address != NULL) {
            live_end(live);
        }
        size_t bytes = 1000 + engine_random(&random) % 8000;
        live_start(live, ps_heap_alloc(bytes), bytes, random);
        if (step % 1000 == 0) {
            fake_os_advance_ms(100);
        }
    }
}

FRESH_TEST(blocks_that_two_threads_replace_at_random_stay_whole) {
    struct worker other;
    worker_start(&other);
    for (int round = 0; round < 4; round++) {
        replace_at_random((void *)0);
        worker_do(&other, replace_at_random, (void *)1);
    }
    for (size_t row = 0; row < 2; row++) {
        live_end_all(slots[row], SLOTS);
    }
    worker_stop(&other);
    check_live(0);
    flush();
}

UNIT_MAIN
