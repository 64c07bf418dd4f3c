// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* A free block is found in every cache and queue; a live one with a copied word is not. */
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#include "pools/engine/heap/confirm.h"
#include "pools/engine/heap/remote.h"

ENGINE_HEAPS

#define BLOCKS 40

static char *blocks[BLOCKS];
static size_t block_bytes;
static size_t count; /* of blocks that the next job frees */

static void allocate(void *unused) {
    (void)unused;
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(block_bytes);
    }
}

/* Not in order: no free streak. */
static char *freed_at(size_t i) { return blocks[i * 7 % BLOCKS]; }

static void free_some(void *unused) {
    (void)unused;
    for (size_t i = 0; i < count; i++) {
        ps_heap_free(freed_at(i));
    }
}

static void flush(void *unused) {
    (void)unused;
    ps_heap_flush();
}

static bool is_confirmed(const char *block) {
    struct ps_slot *slot = ps_page_map_slot(block);
    return ps_confirm_is_listed(ps_span_holding(slot, block), block);
}

static void check_freed(void) {
    for (size_t i = 0; i < count; i++) {
        CHECK(is_confirmed(freed_at(i)));
    }
    CHECK(!is_confirmed(freed_at(count)));
}

FRESH_TEST(blocks_of_all_sizes_are_found_where_their_owner_freed_them) {
    const size_t sizes[] = {16, 48, 256, 1000, 1500, 4000, 8000};
    ps_engine_start();
    count = 5;
    for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        block_bytes = sizes[i];
        allocate(NULL);
        free_some(NULL);
        check_freed();
    }
}

static void check_other(size_t bytes) {
    struct worker owner;
    struct worker other;
    ps_engine_start();
    block_bytes = bytes;
    worker_start(&owner);
    worker_start(&other);
    worker_do(&owner, allocate, NULL);
    WHEN("a single block is pending");
    count = 1;
    worker_do(&other, free_some, NULL);
    check_freed();
    WHEN("some are pending as a batch");
    worker_do(&owner, allocate, NULL);
    count = 5;
    worker_do(&other, free_some, NULL);
    check_freed();
    WHEN("they have been returned");
    worker_do(&other, flush, NULL);
    check_freed();
    WHEN("the owner has collected them");
    worker_do(&owner, flush, NULL);
    check_freed();
    worker_stop(&owner);
    worker_stop(&other);
}

FRESH_TEST(small_blocks_are_found_on_their_way_to_another_thread) { check_other(48); }
FRESH_TEST(cached_blocks_are_found_on_their_way_to_another_thread) { check_other(1500); }

FRESH_TEST(live_blocks_with_copied_words_may_be_freed) {
    ps_engine_start();
    block_bytes = 48;
    count = 1;
    for (int round = 0; round < 3; round++) {
        allocate(NULL);
        free_some(NULL);
        memcpy(freed_at(1), freed_at(0), sizeof(uintptr_t));
        ps_heap_free(freed_at(1));
        CHECK(is_confirmed(freed_at(0)));
        CHECK(is_confirmed(freed_at(1)));
    }
}

FRESH_TEST(a_program_that_copies_freed_words_often_is_not_searched_for_ever) {
    ps_engine_start();
    block_bytes = 48;
    allocate(NULL);
    count = 1;
    free_some(NULL);
    for (int i = 0; i < PS_CONFIRM_DENIALS; i++) {
        CHECK(is_confirmed(freed_at(0)));
        CHECK(!is_confirmed(freed_at(1)));
    }
    CHECK(!is_confirmed(freed_at(0)));
}

UNIT_MAIN
