// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * The look at the end of the process: it says nothing of a program without mistakes, wherever its
 * blocks are then, and names a write that no call would come across.
 */
#include "pools/engine/front/slab_room.h"
#include "pools/engine/harden/hard.h"
#include "tests/unit/engine.h"

#include <pthread.h>

#define BLOCKS 3000

static struct live_block blocks[BLOCKS];
static const size_t sizes[] = {8, 16, 40, 64, 200, 256, 1000, 4096, 5000, 20000};
#define SIZE_COUNT (sizeof sizes / sizeof sizes[0])

static void start(uint32_t level) {
    engine_config.harden = level;
    ps_engine_start();
}

static void fill(size_t count, size_t bytes) { live_start_all(blocks, count, bytes); }

/* Blocks of all sizes, some of them free: in order, at random, all of a span. */
static void leave_blocks_everywhere(void) {
    uint64_t state = 7;
    for (size_t size = 0; size < SIZE_COUNT; size++) {
        size_t count = sizes[size] <= 256 ? BLOCKS : 100;
        fill(count, sizes[size]);
        for (size_t i = 0; i < count / 3; i++) {
            live_end(&blocks[i]);
        }
        for (size_t i = count / 3; i < count; i++) {
            if (engine_random(&state) % 2 == 0) {
                live_end(&blocks[i]);
            }
        }
    }
}

FRESH_TEST(a_sweep_at_level_1_finds_nothing_where_nothing_is) {
    start(1);
    leave_blocks_everywhere();
    ps_hard_sweep();
    leave_blocks_everywhere();
    ps_hard_sweep();
}

FRESH_TEST(a_sweep_at_level_2_finds_nothing_where_nothing_is) {
    start(2);
    leave_blocks_everywhere();
    ps_hard_sweep();
    ps_maintenance_trim(0);
    leave_blocks_everywhere();
    ps_hard_sweep();
}

FRESH_TEST(a_sweep_at_level_3_finds_nothing_where_nothing_is) {
    start(3);
    leave_blocks_everywhere();
    ps_hard_sweep();
}

static void check_late_write(size_t bytes, size_t offset) {
    char *block = ps_heap_alloc(bytes);
    char *neighbour = ps_heap_alloc(bytes);
    ps_heap_free(block);
    block[offset] = 'W';
    CHECK_ABORTS(ps_hard_sweep(), "poolshim: write after free to 0x");
    block[offset] = 0;
    ps_hard_sweep();
    ps_heap_free(neighbour);
}

FRESH_TEST(a_late_write_is_named_at_level_1) {
    start(1);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        if (sizes[i] > 8) { /* else a link is all there is */
            check_late_write(sizes[i], sizes[i] - 1);
            check_late_write(sizes[i], 8);
        }
    }
}

FRESH_TEST(a_late_write_is_named_at_level_2) {
    start(2);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        check_late_write(sizes[i], sizes[i] - 1);
        check_late_write(sizes[i], 0);
    }
}

FRESH_TEST(a_write_behind_the_end_of_a_live_block_is_named_at_level_2) {
    start(2);
    for (size_t i = 0; i < SIZE_COUNT; i++) {
        char *block = ps_heap_alloc(sizes[i]);
        char before = block[sizes[i]];
        block[sizes[i]] ^= 0x10;
        CHECK_ABORTS(ps_hard_sweep(), "poolshim: write behind the end of 0x");
        block[sizes[i]] = before;
        ps_hard_sweep();
    }
}

static void *free_ten(void *unused) {
    for (size_t i = 0; i < 10; i++) {
        ps_heap_free(blocks[i].address);
    }
    return unused;
}

FRESH_TEST(blocks_freed_by_ended_threads_are_checked) {
    start(1);
    fill(20, 64);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, free_ten, NULL) == 0);
    pthread_join(thread, NULL);
    ps_hard_sweep();
    blocks[4].address[20] = 'W';
    CHECK_ABORTS(ps_hard_sweep(), "poolshim: write after free to 0x");
}

static void fill_and_free(size_t bytes) {
    fill(200, bytes);
    for (size_t i = 0; i < 200; i++) {
        live_end(&blocks[i]);
    }
}

static void *leave_used_memory(void *unused) {
    for (size_t bytes = 700; bytes <= 2800; bytes *= 2) {
        fill_and_free(bytes);
    }
    return unused;
}

/* Bins are emptied after each block then. */
FRESH_TEST(blocks_beside_frequent_samples_are_zeroed_at_level_2) {
    engine_config.guard_sample = 2;
    start(2);
    ps_slab_sparse_slabs = 0; /* their memory is fresh */
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, leave_used_memory, NULL) == 0);
    pthread_join(thread, NULL);
    fill_and_free(1900);
    fill_and_free(1400);
    ps_hard_sweep();
}

UNIT_MAIN
