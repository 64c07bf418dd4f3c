/* SPDX-License-Identifier: MIT */
/*
 * Families that take no chunks from a source: rounds of the same use take no more memory than the
 * first one. Those with a source: growth_bound_test.c.
 */
#include <poolshim/arena.h>
#include <poolshim/shared.h>
#include <poolshim/slice.h>

#include "tests/pools/modes.h"
#include "tests/pools/new_shared.h"
#include "tests/unit/unit.h"

enum { ROUNDS = 40, FEW = 10, MANY = 4000, BYTES = 1000 };

static void *blocks[MANY];

TEST(slices_that_were_given_back_leave_no_runs) {
    NEEDS_CHUNKS();
    struct ps_slice_stats stats;
    size_t first = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        size_t count = round == 1 ? MANY : FEW;
        for (size_t i = 0; i < count; i++) {
            blocks[i] = ps_slice_alloc(64);
        }
        ps_slice_stats(&stats);
        first = round == 0 ? stats.run_bytes : first;
        CHECK(round == 1 || stats.run_bytes <= first);
        for (size_t i = 0; i < count; i++) {
            ps_slice_free(64, blocks[i]);
        }
        ps_slice_trim_to(0);
    }
}

TEST(a_shared_heap_and_an_arena_use_freed_memory_again) {
    int fd = shared_file();
    struct ps_shared *heap = shared_open(fd);
    char path[] = "/tmp/growth_bound_XXXXXX";
    int file = mkstemp(path);
    REQUIRE(file >= 0);
    struct ps_arena *arena;
    REQUIRE(ps_arena_open(&arena, path, PS_ARENA_CREATE, NULL) == PS_ARENA_OK);
    size_t shared_first = 0;
    size_t arena_first = 0;
    for (size_t round = 0; round < ROUNDS; round++) {
        void *of_heap[100];
        void *of_arena[100];
        for (size_t i = 0; i < 100; i++) {
            of_heap[i] = ps_shared_alloc(heap, BYTES);
            of_arena[i] = ps_arena_alloc(arena, 100);
            REQUIRE(of_heap[i] != NULL && of_arena[i] != NULL);
        }
        struct ps_arena_stats stats;
        ps_arena_stats(arena, &stats);
        shared_first = round == 0 ? shared_stats(heap).total_bytes : shared_first;
        arena_first = round == 0 ? stats.file_bytes : arena_first;
        CHECK_EQ(shared_stats(heap).total_bytes, shared_first);
        CHECK_EQ(stats.file_bytes, arena_first);
        for (size_t i = 0; i < 100; i++) {
            ps_shared_free(heap, of_heap[i]);
            ps_arena_free(arena, of_arena[i]);
        }
    }
    ps_arena_close(arena);
    ps_shared_close(heap);
    close(fd);
    close(file);
    unlink(path);
}

UNIT_MAIN
