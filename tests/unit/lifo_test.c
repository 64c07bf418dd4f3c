// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * LIFO caches: which block malloc takes, how many wait, when they return to their spans, and that
 * they count as free everywhere: in the census, in calloc, at the end of a thread.
 */
#include "tests/unit/engine.h"

#include "pools/engine/heap/lifo.h"
#include "tests/unit/worker.h"

#include "pools/engine/base/bits.h"

ENGINE_LONG_CLASSES

#define BLOCK_LIMIT 4000

static struct live_block blocks[BLOCK_LIMIT];

static const size_t sizes[] = {4097, 6000, 8192, 14000, 20000, 40000, 65536};
#define SIZES (sizeof sizes / sizeof sizes[0])

static uint32_t class_of(size_t bytes) {
    uint32_t class_index = ps_size_class_of(bytes);
    REQUIRE(class_index < PS_CLASS_LIMIT);
    return class_index;
}

static size_t limit_of(size_t bytes) { return ps_size_classes[class_of(bytes)].lifo_limit; }

static size_t capacity_of(size_t bytes) {
    const struct ps_size_class *class = &ps_size_classes[class_of(bytes)];
    return (size_t)(class->limit - class->first);
}

static size_t waiting(size_t bytes) {
    return ps_thread.heap != NULL ? ps_lifo_count(ps_thread.heap, class_of(bytes)) : 0;
}

/* Blocks on the list itself, which the count must agree with. */
static size_t length_of_list(size_t bytes) {
    size_t length = 0;
    const struct ps_span *list = &ps_thread.heap->lifo[class_of(bytes)];
    for (void *block = list->free; block != NULL && !ps_link_is_end(block);
         block = ps_link_of(block, list->salt)) {
        length++;
    }
    return length;
}

static void fill(size_t count, size_t bytes) {
    for (size_t i = 0; i < count; i++) {
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
        REQUIRE(blocks[i].address != NULL);
    }
}

static uint64_t span_bytes(void) { return engine_census().small_span_bytes; }

/* Slow calls of no class, some of which read the clock. */
static void pass_time(uint64_t ms) {
    fake_os_advance_ms(ms);
    for (int i = 0; i < 20; i++) {
        ps_heap_free(ps_heap_alloc(600 * KIB));
    }
}

/* ---- order and number ---- */

FRESH_TEST(the_newest_block_freed_is_the_first_reused_whatever_its_span) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        size_t count = limit_of(sizes[s]) - 1;
        fill(10 * count, sizes[s]); /* every tenth: many spans */
        void *freed[256];
        for (size_t i = 0; i < count; i++) {
            freed[i] = blocks[10 * i].address;
            live_end(&blocks[10 * i]);
            CHECK_EQ(waiting(sizes[s]), i + 1);
        }
        for (size_t i = count; i-- > 0;) {
            live_start(&blocks[10 * i], ps_heap_alloc(sizes[s]), sizes[s], i);
            CHECK_PTR_EQ(blocks[10 * i].address, freed[i]);
        }
        CHECK_EQ(waiting(sizes[s]), 0);
        live_end_all(blocks, 10 * count);
    }
    ps_heap_trim(0);
    check_live_blocks(0);
    CHECK_EQ(span_bytes(), 0);
}

FRESH_TEST(blocks_of_smaller_classes_go_into_their_span) {
    ps_engine_start();
    const size_t smaller[] = {8, 256, 1024, 4096};
    for (size_t s = 0; s < 4; s++) {
        fill(100, smaller[s]);
        live_end_all(blocks, 100);
        CHECK_EQ(waiting(smaller[s]), 0);
        CHECK(ps_thread.heap->lifo[class_of(smaller[s])].free == NULL);
        uint32_t class_index = class_of(smaller[s]);
        CHECK_PTR_EQ(ps_thread.heap->sources[class_index], ps_thread.heap->bins[class_index].span);
    }
}

FRESH_TEST(blocks_above_the_limit_return_to_their_spans) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        size_t limit = limit_of(sizes[s]);
        size_t count = ps_size_classes[class_of(sizes[s])].block_bytes > 40000 ? 100 : 800;
        fill(count, sizes[s]);
        uint64_t before = span_bytes();
        for (size_t i = 0; i < count; i++) {
            live_end(&blocks[i]);
            CHECK_CMP(waiting(sizes[s]), <, limit);
        }
        CHECK_CMP(waiting(sizes[s]), >=, limit / 2);
        /* What waits may hold as many spans; the current and a drained one may stay. */
        uint64_t one = (uint64_t)ps_size_classes[class_of(sizes[s])].granules << PS_GRANULE_SHIFT;
        CHECK_CMP(span_bytes(), <=, ps_min(before, (limit + 2) * one));
        ps_heap_trim(0);
        CHECK_EQ(waiting(sizes[s]), 0);
        CHECK_EQ(span_bytes(), 0);
    }
    check_live_blocks(0);
}

FRESH_TEST(the_count_agrees_with_the_list_at_every_step) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        size_t bytes = sizes[s];
        size_t live = 0;
        size_t most = 3 * limit_of(bytes);
        for (int step = 0; step < 6000 / FRESH_SLOWNESS; step++) {
            bool is_free = unit_random() % 256 < (step % 1000 < 500 ? 100 : 156); /* tides */
            void *newest = ps_thread.heap->lifo[class_of(bytes)].free;
            if (is_free && live > 0) {
                live_end(&blocks[--live]);
            } else if (!is_free && live < most) {
                live_start(&blocks[live++], ps_heap_alloc(bytes), bytes, unit_random());
                CHECK(newest == NULL || ps_link_is_end(newest) ||
                      newest == blocks[live - 1].address);
            }
            CHECK_EQ(waiting(bytes), length_of_list(bytes));
            CHECK_CMP(waiting(bytes), <=, limit_of(bytes) + capacity_of(bytes));
        }
        check_live_blocks(live);
        live_end_all(blocks, live);
        check_live_blocks(0);
    }
}

/* ---- when they return to their spans ---- */

static void use_and_leave_one(void *unused) {
    (void)unused;
    for (size_t s = 0; s < SIZES; s++) {
        CHECK_EQ(waiting(sizes[s]), 0); /* of the thread that had this heap before */
        size_t count = limit_of(sizes[s]);
        fill(count, sizes[s]);
        live_end_all(blocks, count - 1);
        CHECK_CMP(waiting(sizes[s]), ==, count - 1);
        blocks[BLOCK_LIMIT - 1 - s] = blocks[count - 1];
        blocks[count - 1].address = NULL;
    }
}

FRESH_TEST(threads_that_end_with_a_lifo_cache_lose_no_block) {
    ps_engine_start();
    for (int round = 0; round < 4; round++) {
        worker_do_and_end(use_and_leave_one, NULL);
        check_live_blocks(SIZES);
        CHECK_EQ(engine_census().orphan_span_count, SIZES); /* with room: all else is back */
        live_end_all(blocks, BLOCK_LIMIT);
        ps_heap_trim(0);
        check_live_blocks(0);
        CHECK_EQ(span_bytes(), 0);
    }
    CHECK_CMP(engine_census().heap_total_count, <=, 2);
}

FRESH_TEST(cached_blocks_return_periodically) {
    ps_engine_start();
    pass_time(1000);
    for (size_t s = 0; s < SIZES; s++) {
        fill(5, sizes[s]);
        live_end_all(blocks, 5);
        CHECK_EQ(waiting(sizes[s]), 5);
    }
    pass_time(1000);
    for (size_t s = 0; s < SIZES; s++) {
        CHECK_EQ(waiting(sizes[s]), 0);
    }
    check_live_blocks(0);
}

/* ---- what they are not ---- */

FRESH_TEST(the_census_counts_them_as_prepared) {
    ps_engine_start();
    fill(20, 6000);
    struct ps_census before = engine_census();
    CHECK_EQ(before.classes[class_of(6000)].live_blocks, 20);
    live_end_all(blocks, 8);
    struct ps_census after = engine_census();
    CHECK_EQ(after.classes[class_of(6000)].live_blocks, 12);
    CHECK_EQ(after.classes[class_of(6000)].prepared_blocks,
             before.classes[class_of(6000)].prepared_blocks + 8);
    check_census(&after);
}

FRESH_TEST(calloc_clears_them_and_knows_untouched_blocks_behind_them) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        fill(4, sizes[s]); /* patterns, not zero */
        void *newest = blocks[3].address;
        live_end_all(blocks, 4);
        for (size_t i = 0; i < capacity_of(sizes[s]); i++) {
            unsigned char *block = ps_block_zalloc(sizes[s]);
            REQUIRE(block != NULL);
            CHECK(i != 0 || block == newest);
            CHECK(engine_is_zero(block, sizes[s]));
            live_start(&blocks[i], block, sizes[s], i);
        }
        live_end_all(blocks, capacity_of(sizes[s]));
    }
}

FRESH_TEST(aligned_blocks_wait_and_come_back_aligned) {
    ps_engine_start();
    for (size_t align = 8192; align <= 65536; align *= 2) {
        void *first = ps_block_alloc_aligned(align, align);
        REQUIRE(first != NULL);
        CHECK_EQ((uintptr_t)first % align, 0);
        ps_heap_free(first);
        CHECK_EQ(waiting(align), 1);
        CHECK_PTR_EQ(ps_block_alloc_aligned(align, align), first);
        void *second = ps_block_alloc_aligned(align, align);
        CHECK_EQ((uintptr_t)second % align, 0);
        ps_heap_free(first);
        ps_heap_free(second);
    }
    check_live_blocks(0);
}

FRESH_TEST(a_block_that_moved_is_the_next_one_taken) {
    ps_engine_start();
    live_start(&blocks[0], ps_heap_alloc(6000), 6000, 1);
    unsigned char *old = blocks[0].address;
    CHECK(live_resize(&blocks[0], 50000, 2));
    CHECK_EQ(waiting(6000), 1);
    CHECK_PTR_EQ(ps_heap_alloc(6000), old);
    CHECK_EQ(ps_block_usable(old), 6144);
    ps_heap_free(old);
    live_end(&blocks[0]);
    check_live_blocks(0);
}

FRESH_TEST(frees_that_overflow_the_cache_keep_errno) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        size_t count = 4 * limit_of(sizes[s]);
        fill(count, sizes[s]);
        for (size_t i = 0; i < count; i++) {
            fake_os_advance_ms(i % 16 == 0 ? 300 : 0);
            errno = 4711;
            ps_heap_free(blocks[i].address);
            CHECK_EQ(errno, 4711);
            blocks[i].address = NULL;
        }
    }
}

/* ---- spans of several granules ---- */

FRESH_TEST(blocks_inside_long_spans_wait_like_all_others) {
    ps_engine_start();
    fill(8, 20000);
    struct ps_span *head = ps_span_at(blocks[0].address);
    REQUIRE(head->run.granules > 1);
    size_t inside = 0;
    for (size_t i = 0; i < 8; i++) {
        const struct ps_span *slot = ps_span_at(blocks[i].address);
        inside += slot != head;
        CHECK_EQ(slot->x_owner, head->x_owner);
        live_end(&blocks[i]);
        CHECK_EQ(waiting(20000), i + 1);
    }
    CHECK_CMP(inside, >, 0);
    ps_heap_trim(0);
    for (uint32_t i = 0; i < head->run.granules; i++) { /* released: the slots have no owner */
        CHECK_EQ(ps_span_at((char *)head->run.base + i * PS_GRANULE_BYTES)->x_owner, 0);
    }
    CHECK_EQ(span_bytes(), 0);
}

static void fill_and_leave(void *argument) {
    const size_t *bytes = argument;
    fill(8 * capacity_of(*bytes), *bytes);
}

FRESH_TEST(the_thread_that_adopts_a_long_span_frees_into_its_own_lifo_cache) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        size_t bytes = sizes[s];
        WHEN("its thread has ended and another one, which never had this class, frees its blocks");
        worker_do_and_end(fill_and_leave, &bytes);
        CHECK_EQ(waiting(bytes), 0);
        live_end_all(blocks, 8 * capacity_of(bytes));
        THEN("the other one has adopted spans and keeps the newest of their blocks");
        CHECK_CMP(waiting(bytes), >, 0);
        CHECK_EQ(waiting(bytes), length_of_list(bytes));
        void *newest = ps_thread.heap->lifo[class_of(bytes)].free;
        CHECK_PTR_EQ(ps_heap_alloc(bytes), newest);
        ps_heap_free(newest);
        ps_heap_trim(0);
        check_live_blocks(0);
        CHECK_EQ(span_bytes(), 0);
    }
}

/* ---- past the end of a thread ---- */

static void use_late(void *unused) {
    (void)unused;
    ps_heap_give_up();
    for (size_t s = 0; s < SIZES; s++) {
        fill(2 * limit_of(sizes[s]), sizes[s]);
        live_end_all(blocks, 2 * limit_of(sizes[s]));
        live_start(&blocks[0], ps_heap_alloc(sizes[s]), sizes[s], 1);
        live_end(&blocks[0]);
    }
}

FRESH_TEST(the_shared_heap_takes_lists_of_its_spans_the_same_way) {
    ps_engine_start();
    worker_do_and_end(use_late, NULL);
    struct ps_census before = engine_census();
    for (int round = 0; round < 5; round++) {
        worker_do_and_end(use_late, NULL);
    }
    struct ps_census after = engine_census();
    check_census(&after);
    CHECK_CMP(after.small_span_bytes, <=, before.small_span_bytes);
}

/* ---- spans that go while blocks of others wait ---- */

FRESH_TEST(lists_may_end_with_a_destroyed_span) {
    uint64_t state = 12345;
    for (int step = 0; step < 5000; step++) {
        bool is_making = engine_random(&state) % 2 == 0;
        for (uint64_t i = engine_random(&state) % 60; i > 0; i--) {
            struct live_block *block = &blocks[engine_random(&state) % 100];
            if (is_making && block->address == NULL) {
                live_start(block, ps_heap_alloc(8000), 8000, state);
            } else if (!is_making && block->address != NULL) {
                live_end(block);
            }
        }
        if (engine_random(&state) % 20 == 0) {
            ps_heap_trim(0);
        }
    }
    live_end_all(blocks, 100);
    check_live_blocks(0);
}

UNIT_MAIN
