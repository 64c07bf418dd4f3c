// sources: pools/rust/native/binding.c pools/pages/decay.c pools/pages/depot.c pools/pages/extend.c
// sources: pools/pages/magazine.c pools/pages/pages.c pools/pages/run.c pools/common/allocator.c
// sources: pools/common/chunk.c pools/common/debug.c pools/common/poison.c pools/common/registry.c
// sources: pools/common/source.c pools/region/blocks.c pools/region/chunks.c pools/region/cleanup.c
// sources: pools/common/canary.c pools/region/canary.c pools/region/growth.c
// sources: pools/region/large.c pools/region/region.c pools/region/tree.c
// sources: pools/slots/chunks.c pools/slots/inspect.c pools/slots/slots.c
/* SPDX-License-Identifier: MIT */
/*
 * The C of the Rust crate, pools/rust/native/binding.c, in which the engine starts the pages and
 * repairs them after a fork. Forks after each instruction of another thread's work with pages
 * (fork_step.h): the child must be able to use pages, regions and the engine, at whichever
 * instruction of a locked section that thread is, and must never be given memory in use.
 */
#include "pools/rust/native/binding.h"

#include "pools/pages/magazine.h"
#include "tests/unit/fork_pages.h"
#include "tests/unit/fork_step.h"
#include "tests/unit/fresh.h"

static void use_everything(void) {
    static unsigned char *blocks[TAKEN];
    struct ps_region *region = ps_rust_region_create(0, 0);
    REQUIRE(region != NULL);
    take_pages();
    for (size_t i = 0; i < TAKEN; i++) {
        blocks[i] = i % 2 == 0 ? ps_rust_region_alloc(region, 1000, 16) : ps_rust_alloc(1000);
        REQUIRE(blocks[i] != NULL);
        fill(blocks[i], 1000, i + 9);
    }
    check_kept_pages();
    free_kept_pages();
    free_taken_pages();
    for (size_t i = 0; i < TAKEN; i++) {
        check_filled(blocks[i], 1000, i + 9);
        if (i % 2 != 0) {
            ps_rust_free(blocks[i]);
        }
    }
    ps_rust_region_destroy(region);
    ps_pages_trim_to(0);
}

static void pages_come_and_go(void) {
    ps_pages_magazine_limit(0); /* each call goes to the depot */
    void *a = ps_pages_alloc(3 * PAGE, PAGE);
    void *b = ps_pages_alloc(20 * PAGE, PAGE);
    ps_pages_free(a, 3 * PAGE);
    a = ps_pages_alloc(2 * PAGE, PAGE);
    ps_pages_free(b, 20 * PAGE);
    ps_pages_free(a, 2 * PAGE);
}

FRESH_TEST(the_child_uses_pages_that_another_thread_was_taking) {
    fork_at_each_step(allocate_kept_pages, pages_come_and_go, use_everything, 31);
}

static void magazine_is_filled(void) {
    void *pages[12];
    for (size_t i = 0; i < 12; i++) {
        pages[i] = ps_pages_alloc(8 * PAGE, PAGE);
    }
    for (size_t i = 0; i < 12; i++) {
        ps_pages_free(pages[i], 8 * PAGE);
    }
}

/* The child frees the pages in magazines of other threads: those magazines are then empty. */
static void count_and_use_everything(void) {
    struct ps_pages_stats stats;
    ps_pages_stats(&stats);
    CHECK_EQ(ps_magazine_all_bytes(), stats.magazine_bytes);
    use_everything();
}

FRESH_TEST(the_child_empties_the_magazines_of_threads_that_are_not_there) {
    fork_at_each_step(allocate_kept_pages, magazine_is_filled, count_and_use_everything, 61);
}

UNIT_MAIN
