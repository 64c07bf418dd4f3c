// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Second frees, wrong addresses and writes to free blocks, wherever the free block is: in a front,
 * in the store, in a streak, in a thread that has ended.
 */
#include "pools/engine/front/store.h"
#include "pools/engine/heap/front_path.h"
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

ENGINE_LONG_CLASSES

#define COUNT 400

static char *blocks[COUNT];

static const size_t sizes[] = {8, 24, 64, 200, 1000, 4096, 5000, 20000, 60000};
#define SIZES (sizeof sizes / sizeof sizes[0])

static void take(size_t bytes) {
    for (size_t i = 0; i < COUNT; i++) {
        blocks[i] = ps_heap_alloc(bytes);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 0x5a, 8);
    }
}

/* No two neighbours: no streak. */
static void free_odd(void *unused) {
    (void)unused;
    for (size_t i = 1; i < COUNT; i += 2) {
        ps_heap_free(blocks[i]);
    }
}

static void check_calls_with_free(char *block, size_t bytes) {
    CHECK_ABORTS((void)ps_block_resize(block, 2 * bytes), "poolshim: realloc of free block 0x");
    CHECK_ABORTS((void)ps_block_usable(block), "poolshim: size of free block 0x");
}

FRESH_TEST(a_second_free_is_found_in_a_front_at_once) {
    for (size_t s = 0; s < SIZES; s++) {
        take(sizes[s]);
        ps_heap_free(blocks[1]);
        CHECK_ABORTS(ps_heap_free(blocks[1]), "poolshim: double free of 0x");
        check_calls_with_free(blocks[1], sizes[s]);
    }
}

FRESH_TEST(a_second_free_is_found_whatever_was_freed_since) {
    for (size_t s = 0; s < SIZES; s++) {
        take(sizes[s]);
        free_odd(NULL);
        for (size_t i = 1; i < COUNT; i += 38) {
            CHECK_ABORTS(ps_heap_free(blocks[i]), "double free of");
        }
        check_calls_with_free(blocks[21], sizes[s]);
        WHEN("all are in the store");
        ps_maintenance_flush();
        for (size_t i = 1; i < COUNT; i += 38) {
            CHECK_ABORTS(ps_heap_free(blocks[i]), "double free of");
        }
        check_calls_with_free(blocks[51], sizes[s]);
    }
}

FRESH_TEST(a_second_free_is_found_after_the_thread_of_the_first_has_ended) {
    for (size_t s = 0; s < SIZES; s++) {
        take(sizes[s]);
        worker_do_and_end(free_odd, NULL);
        for (size_t i = 1; i < COUNT; i += 38) {
            CHECK_ABORTS(ps_heap_free(blocks[i]), "double free of");
        }
        check_calls_with_free(blocks[51], sizes[s]);
    }
}

FRESH_TEST(an_address_within_a_block_is_no_block) {
    for (size_t s = 0; s < SIZES; s++) {
        char *block = ps_heap_alloc(sizes[s]);
        for (size_t at = 4; at < sizes[s]; at = 2 * at + 4) {
            CHECK_ABORTS(ps_heap_free(block + at), "poolshim: free of interior pointer 0x");
            CHECK_ABORTS((void)ps_block_usable(block + at),
                         "poolshim: size of interior pointer 0x");
            CHECK_ABORTS((void)ps_block_resize(block + at, 1),
                         "poolshim: realloc of interior pointer 0x");
        }
        ps_heap_free(block);
    }
}

FRESH_TEST(the_ends_of_a_slab_are_no_blocks) {
    for (size_t s = 0; s < SIZES; s++) {
        char *block = ps_heap_alloc(sizes[s]);
        const struct ps_slab *slab = ps_slab_of(block);
        size_t limit = ps_slab_class(slab)->limit;
        if (ps_slab_class(slab)->first != 0) {
            CHECK_ABORTS(ps_heap_free(slab->run.base), "poolshim: free of interior pointer 0x");
            CHECK_ABORTS(ps_heap_free(ps_slab_block(slab, limit)),
                         "poolshim: free of interior pointer 0x");
        }
    }
}

FRESH_TEST(a_write_after_the_free_is_found_when_the_block_is_taken) {
    for (size_t s = 0; s < SIZES; s++) {
        take(sizes[s]);
        ps_heap_free(blocks[1]);
        memset(blocks[1], 0x77, 8);
        CHECK_ABORTS((void)ps_heap_alloc(sizes[s]), "write after free to 0x");
        CHECK_ABORTS((void)ps_block_zalloc(sizes[s]), "write after free to 0x");
        ps_mark_set(blocks[1]);
    }
}

/* A program that reads a free block and stores the word elsewhere has done no harm yet. */
FRESH_TEST(the_word_of_a_free_block_is_no_mark_of_another_one) {
    for (size_t s = 0; s < SIZES; s++) {
        take(sizes[s]);
        ps_heap_free(blocks[1]);
        memcpy(blocks[2], blocks[1], 8);
        CHECK_CMP(ps_block_usable(blocks[2]), >=, sizes[s]);
        ps_heap_free(blocks[2]);
        CHECK_PTR_EQ(ps_heap_alloc(sizes[s]), blocks[2]);
    }
}

FRESH_TEST(the_word_of_a_free_block_tells_no_address) {
    for (size_t s = 0; s < SIZES; s++) {
        take(sizes[s]);
        free_odd(NULL);
        for (size_t i = 1; i < COUNT; i += 2) {
            uintptr_t word = *(uintptr_t *)blocks[i];
            CHECK((word ^ (uintptr_t)blocks[i]) >> 40 != 0);
        }
        ps_maintenance_flush();
    }
}

/* Contents that were there before, a mark among them, are no marks of live blocks. */
FRESH_TEST(blocks_of_memory_that_had_marks_can_be_freed) {
    for (int round = 0; round < 4; round++) {
        for (size_t s = 0; s < SIZES; s++) {
            for (size_t i = 0; i < COUNT; i++) {
                blocks[i] = ps_heap_alloc(sizes[s]); /* not written to */
                REQUIRE(blocks[i] != NULL);
            }
            for (size_t i = 0; i < COUNT; i++) {
                ps_heap_free(blocks[i * 7 % COUNT]);
            }
            ps_maintenance_flush();
            ps_store_drop_drained(true); /* the memory is another slab's next */
        }
    }
    check_live_blocks(0);
}

/* ---- streaks ---- */

/* Frees from the first one on; the streak is open in the end. */
static void free_in_order(size_t count) {
    for (size_t i = 0; i < count; i++) {
        ps_heap_free(blocks[i]);
    }
    REQUIRE(ps_front_thread.streak_step != 0);
    CHECK_PTR_EQ(ps_front_thread.streak_next, blocks[count]);
}

FRESH_TEST(a_streak_frees_each_block_once) {
    take(64);
    free_in_order(COUNT - 1);
    check_live_blocks(1);
    for (size_t i = 0; i < COUNT - 1; i += 37) {
        CHECK_ABORTS(ps_heap_free(blocks[i]), "double free of");
        check_calls_with_free(blocks[i], 64);
    }
}

FRESH_TEST(a_block_freed_alone_and_then_in_a_streak_is_found_when_that_ends) {
    take(64);
    ps_heap_free(blocks[COUNT - 20]);
    free_in_order(COUNT - 1);
    CHECK_ABORTS(ps_front_close_streak(), "double free of");
}

FRESH_TEST(a_block_freed_in_a_streak_and_then_alone_is_found_when_that_ends) {
    take(64);
    free_in_order(COUNT - 1);
    ps_heap_free(blocks[COUNT - 20]);
    CHECK_ABORTS(ps_front_close_streak(), "double free of");
}

FRESH_TEST(a_streak_over_blocks_in_the_store_is_found_when_it_ends) {
    take(64);
    void *given = blocks[COUNT - 20];
    ps_store_give(ps_size_class_of(64), &given, 1);
    free_in_order(COUNT - 1);
    CHECK_ABORTS(ps_front_close_streak(), "double free of");
}

FRESH_TEST(a_streak_beyond_the_slab_ends_there) {
    static char *many[3000];
    ps_engine_start();
    for (size_t i = 0; i < 3000; i++) {
        many[i] = ps_heap_alloc(64);
        REQUIRE(many[i] != NULL);
    }
    for (size_t i = 0; i < 3000; i++) {
        ps_heap_free(many[i]);
    }
    check_live_blocks(0);
    for (size_t i = 3000; i-- > 0;) {
        many[i] = ps_heap_alloc(64);
    }
    for (size_t i = 3000; i-- > 0;) {
        ps_heap_free(many[i]);
    }
    check_live_blocks(0);
    ps_maintenance_trim(0);
    CHECK_EQ(engine_census().small_slab_bytes, 0);
}

UNIT_MAIN
