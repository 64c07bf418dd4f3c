// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Slabs of few blocks: classes above 4 KiB. Some of them have slabs of several granules, where
 * slots describe the later granules as inside. Their blocks are counted, cleared and aligned like
 * others, and no call loses one.
 */
#include "tests/unit/engine.h"

#include "tests/unit/worker.h"

ENGINE_LONG_CLASSES

#define BLOCK_LIMIT 400

static struct live_block blocks[BLOCK_LIMIT];

static const size_t sizes[] = {4097, 6000, 8192, 14000, 20000, 40000, 65536};
#define SIZES (sizeof sizes / sizeof sizes[0])

static uint32_t class_of(size_t bytes) {
    uint32_t class_index = ps_size_class_of(bytes);
    REQUIRE(class_index < PS_CLASS_LIMIT);
    return class_index;
}

static size_t capacity_of(size_t bytes) {
    const struct ps_size_class *class = &ps_size_classes[class_of(bytes)];
    return (size_t)(class->limit - class->first);
}

static void fill(size_t count, size_t bytes) { live_start_all(blocks, count, bytes); }

static uint64_t slab_bytes(void) { return engine_census().small_slab_bytes; }

FRESH_TEST(blocks_inside_a_long_slab_are_of_it) {
    ps_engine_start();
    fill(capacity_of(20000), 20000);
    const struct ps_slab *head = ps_slab_of(blocks[0].address);
    REQUIRE(head->run.granules > 1);
    size_t inside = 0;
    for (size_t i = 0; i < capacity_of(20000); i++) {
        inside += (const void *)ps_page_map_slot(blocks[i].address) != head;
        CHECK_PTR_EQ(ps_slab_of(blocks[i].address), head);
        live_end(&blocks[i]);
    }
    CHECK_CMP(inside, >, 0);
    ps_maintenance_trim(0);
    CHECK_EQ(slab_bytes(), 0);
}

static void use_and_leave_one(void *unused) {
    (void)unused;
    for (size_t s = 0; s < SIZES; s++) {
        fill(16, sizes[s]);
        live_end_all(blocks, 15);
        blocks[BLOCK_LIMIT - 1 - s] = blocks[15];
        blocks[15].address = NULL;
    }
}

FRESH_TEST(threads_that_end_lose_no_block) {
    ps_engine_start();
    for (int round = 0; round < 4; round++) {
        worker_do_and_end(use_and_leave_one, NULL);
        check_live_blocks(SIZES);
        live_end_all(blocks, BLOCK_LIMIT);
        ps_maintenance_trim(0);
        check_live_blocks(0);
        CHECK_EQ(slab_bytes(), 0);
    }
}

static void use_late(void *unused) {
    (void)unused;
    ps_front_thread_ended();
    for (size_t s = 0; s < SIZES; s++) {
        fill(40, sizes[s]);
        live_end_all(blocks, 40);
    }
}

FRESH_TEST(a_thread_past_its_end_frees_them_the_same_way) {
    ps_engine_start();
    worker_do_and_end(use_late, NULL);
    struct ps_census before = engine_census();
    for (int round = 0; round < 5; round++) {
        worker_do_and_end(use_late, NULL);
    }
    struct ps_census after = engine_census();
    check_census(&after);
    CHECK_CMP(after.small_slab_bytes, <=, before.small_slab_bytes);
}

FRESH_TEST(the_census_counts_the_blocks_that_are_out) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        fill(20, sizes[s]);
        live_end_all(blocks, 8);
        struct ps_census census = engine_census();
        CHECK_EQ(census.classes[class_of(sizes[s])].live_blocks, 12);
        check_census(&census);
        live_end_all(blocks, 20);
    }
}

FRESH_TEST(calloc_clears_freed_blocks_and_knows_untouched_ones_behind_them) {
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

FRESH_TEST(aligned_blocks_come_back_aligned) {
    ps_engine_start();
    for (size_t align = 8192; align <= 65536; align *= 2) {
        void *first = ps_block_alloc_aligned(align, align);
        REQUIRE(first != NULL);
        CHECK_EQ((uintptr_t)first % align, 0);
        ps_heap_free(first);
        CHECK_PTR_EQ(ps_block_alloc_aligned(align, align), first);
        void *second = ps_block_alloc_aligned(align, align);
        CHECK_EQ((uintptr_t)second % align, 0);
        ps_heap_free(first);
        ps_heap_free(second);
    }
    check_live_blocks(0);
}

FRESH_TEST(frees_that_drain_slabs_keep_errno) {
    ps_engine_start();
    for (size_t s = 0; s < SIZES; s++) {
        fill(64, sizes[s]);
        for (size_t i = 0; i < 64; i++) {
            fake_os_advance_ms(i % 16 == 0 ? 300 : 0);
            errno = 4711;
            ps_heap_free(blocks[i].address);
            CHECK_EQ(errno, 4711);
            blocks[i].address = NULL;
        }
    }
}

FRESH_TEST(slabs_may_go_at_any_step) {
    uint64_t state = 12345;
    for (int step = 0; step < 5000; step++) {
        bool is_making = engine_random(&state) % 2 == 0;
        for (uint64_t i = engine_random(&state) % 60; i > 0; i--) {
            struct live_block *block = &blocks[engine_random(&state) % 100];
            size_t bytes = sizes[engine_random(&state) % SIZES];
            if (is_making && block->address == NULL) {
                live_start(block, ps_heap_alloc(bytes), bytes, state);
            } else if (!is_making && block->address != NULL) {
                live_end(block);
            }
        }
        if (engine_random(&state) % 20 == 0) {
            ps_maintenance_trim(0);
        }
    }
    live_end_all(blocks, 100);
    check_live_blocks(0);
}

UNIT_MAIN
