// flags: -O2
/* SPDX-License-Identifier: MIT */
/*
 * Blocks that a process was forked with: the child frees them without writing to them, so that
 * their pages need not be copied, and uses them again.
 */
#include "pools/engine/front/slab.h"
#include "pools/engine/heap/front_path.h"
#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#define BLOCKS 2000 /* few enough that no bound on free memory purges their pages */
#define PATTERN 0x5a

static const size_t sizes[] = {24, 200, 1000, 3000};
#define SIZES (sizeof sizes / sizeof sizes[0])

static unsigned char *blocks[SIZES][BLOCKS];

static void fill_all(void) {
    for (size_t s = 0; s < SIZES; s++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            blocks[s][i] = ps_heap_alloc(sizes[s]);
            REQUIRE(blocks[s][i] != NULL);
            memset(blocks[s][i], PATTERN, sizes[s]);
        }
    }
}

static bool is_untouched(const unsigned char *block, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (block[i] != PATTERN) {
            return false;
        }
    }
    return true;
}

/* Retains one of four, so that no slab ends. */
static void free_most(size_t s) {
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t index = i * 7 % BLOCKS;
        if (index % 4 != 0) {
            ps_heap_free(blocks[s][index]);
            /* Without tags, as in the build for ThreadSanitizer, it cannot be told. */
            CHECK(!ps_page_map_has_tag(blocks[s][index]) ||
                  is_untouched(blocks[s][index], sizes[s]));
        }
    }
}

static void run_in_child(void (*body)(void)) {
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        unit_failures = 0;
        body();
        _exit(unit_failures == 0 ? 0 : 1);
    }
    unit_join_child(pid);
}

static void free_and_allocate(void) {
    for (size_t s = 0; s < SIZES; s++) {
        free_most(s);
    }
    THEN("they are used again, each once, and then as others");
    for (size_t s = 0; s < SIZES; s++) {
        for (size_t i = 0; i < BLOCKS; i++) {
            if (i % 4 != 0) {
                blocks[s][i] = ps_heap_alloc(sizes[s]);
                memset(blocks[s][i], (int)i, sizes[s]);
            }
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            CHECK(blocks[s][i][0] == (unsigned char)(i % 4 != 0 ? i : PATTERN));
            ps_heap_free(blocks[s][i]);
        }
    }
    ps_maintenance_trim(0);
    struct ps_census census = engine_census();
    CHECK_EQ(census_live_blocks(&census), 0);
    CHECK_EQ(census.small_slab_bytes, 0);
}

FRESH_TEST(a_child_frees_what_it_has_inherited_without_a_write) {
    fill_all();
    run_in_child(free_and_allocate);
}

static void fork_beside_the_first(void *unused) {
    (void)unused;
    run_in_child(free_and_allocate);
}

FRESH_TEST(so_does_a_child_that_another_thread_forks) {
    fill_all();
    worker_do_and_end(fork_beside_the_first, NULL);
}

static void fork_again(void) {
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[1][i]);
    }
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[1][i] = ps_heap_alloc(sizes[1]);
        memset(blocks[1][i], PATTERN, sizes[1]);
    }
    run_in_child(free_and_allocate);
}

FRESH_TEST(so_does_a_child_of_the_child) {
    fill_all();
    run_in_child(fork_again);
}

static void free_wrongly(void) {
    ps_heap_free(blocks[1][0]);
    CHECK_ABORTS(ps_heap_free(blocks[1][0]), "poolshim: double free of 0x");
    CHECK_ABORTS(ps_heap_free(blocks[1][1] + 16), "poolshim: free of ");
    CHECK_ABORTS(ps_heap_free(blocks[2][1]), "poolshim: double free of 0x");
}

FRESH_TEST(wrong_frees_of_them_are_found) {
    fill_all();
    ps_heap_free(blocks[2][1]); /* is in a front then */
    run_in_child(free_wrongly);
}

UNIT_MAIN
