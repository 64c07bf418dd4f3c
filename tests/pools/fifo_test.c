/* SPDX-License-Identifier: MIT */
/*
 * Fifos: what the manual claims and each trap of the originals, in all modes.
 */
#include "tests/unit/unit.h"

#include "tests/pools/new_fifo.h"
#include "tests/pools/respawn.h"

TEST(blocks_lie_as_close_as_their_alignment_permits) {
    struct ps_fifo *fifo = ps_fifo_create(NULL);
    char *first = ps_fifo_alloc_aligned(fifo, 8, 8);
    char *second = ps_fifo_alloc_aligned(fifo, 8, 8);
    char *third = ps_fifo_alloc_aligned(fifo, 3, 1);
    char *fourth = ps_fifo_alloc_aligned(fifo, 1, 1);
    char *fifth = ps_fifo_alloc(fifo, 24);
    if (has_layout()) {
        CHECK_PTR_EQ(second, first + 8);
        CHECK_PTR_EQ(third, second + 8);
        CHECK_PTR_EQ(fourth, third + 3);
    }
    CHECK_EQ((uintptr_t)fifth % 16, 0);
    CHECK_EQ(stats_of(fifo).live_count, 5);
    ps_fifo_destroy_now(fifo);
}

TEST(every_alignment_up_to_the_chunk_is_honoured) {
    struct ps_fifo *fifo = ps_fifo_create(NULL);
    CHECK_EQ(ps_fifo_align_max(fifo), CHUNK);
    for (size_t align = 1; align <= CHUNK; align *= 2) {
        for (size_t bytes = 0; bytes <= 3 * CHUNK; bytes = bytes * 3 + 1) {
            char *block = ps_fifo_alloc_aligned(fifo, bytes, align);
            REQUIRE(block != NULL);
            CHECK_EQ((uintptr_t)block % align, 0);
            memset(block, 1, bytes);
            CHECK(ps_fifo_owns(fifo, block));
            if (bytes % 2 == 0) {
                ps_fifo_free(fifo, block);
            }
        }
    }
    errno = 0;
    CHECK(ps_fifo_alloc_aligned(fifo, 1, CHUNK * 2) == NULL);
    CHECK_EQ(errno, EINVAL);
    errno = 0;
    CHECK(ps_fifo_alloc_aligned(fifo, 1, 24) == NULL);
    CHECK_EQ(errno, EINVAL);
    CHECK(ps_fifo_alloc_aligned(fifo, 1, 0) == NULL);
    ps_fifo_destroy_now(fifo);
}

TEST(blocks_of_size_0_differ_and_are_freed) {
    struct ps_fifo *fifo = ps_fifo_create(NULL);
    void *first = ps_fifo_alloc(fifo, 0);
    void *second = ps_fifo_alloc_aligned(fifo, 0, 1);
    void *third = ps_fifo_alloc_aligned(fifo, 0, 1);
    CHECK(first != NULL && first != second && second != third);
    ps_fifo_free(fifo, first);
    ps_fifo_free(fifo, NULL);
    ps_fifo_free(fifo, second);
    ps_fifo_free(fifo, third);
    CHECK_EQ(stats_of(fifo).live_count, 0);
    ps_fifo_destroy(fifo);
}

TEST(sizes_that_overflow_are_memory_that_is_out) {
    struct ps_fifo *fifo = ps_fifo_create(NULL);
    static const size_t sizes[] = {SIZE_MAX,        SIZE_MAX - 1, SIZE_MAX - 15,
                                   SIZE_MAX - 4096, SIZE_MAX / 2, SIZE_MAX / 2 - 64};
    char *block = ps_fifo_alloc(fifo, 8);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t align = 1; align <= CHUNK; align *= 16) {
            errno = 0;
            CHECK(ps_fifo_alloc_aligned(fifo, sizes[i], align) == NULL);
            CHECK_EQ(errno, ENOMEM);
            CHECK(ps_fifo_realloc_aligned(fifo, block, 8, sizes[i], align) == NULL);
        }
        CHECK(ps_fifo_zalloc(fifo, sizes[i]) == NULL);
    }
    CHECK_EQ(stats_of(fifo).live_count, 1);
    ps_fifo_free(fifo, block);
    ps_fifo_destroy(fifo);
}

TEST(a_block_is_zeroed_only_when_that_is_asked_for) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_fifo *fifo = new_fifo(&source, 0);
    static const char zero[5000];
    for (int i = 0; i < 40; i++) {
        char *block = ps_fifo_zalloc(fifo, sizeof zero);
        CHECK(memcmp(block, zero, sizeof zero) == 0);
        memset(block, 0xff, sizeof zero);
        ps_fifo_free(fifo, block);
        char *raw = ps_fifo_alloc(fifo, sizeof zero);
        if (has_layout()) {
            CHECK_EQ((unsigned char)raw[100], 0xff);
        }
        ps_fifo_free(fifo, raw);
    }
    ps_fifo_destroy(fifo);
}

TEST(alloc_and_free_in_turn_never_reach_the_source) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_fifo *fifo = new_fifo(&source, 0);
    for (size_t bytes = 0; bytes < 5000; bytes += 7) {
        ps_fifo_free(fifo, ps_fifo_alloc(fifo, bytes));
    }
    if (has_layout()) {
        CHECK_EQ(source.calls, 1);
    }
    WHEN("the pair is at the end of a chunk that has a live block");
    char *pin = ps_fifo_alloc(fifo, 100);
    for (int i = 0; i < 65; i++) {
        CHECK(ps_fifo_alloc(fifo, 1000) != NULL);
    }
    size_t before = source.calls;
    for (int i = 0; i < 1000; i++) {
        char *pair[3];
        for (int k = 0; k < 3; k++) {
            pair[k] = ps_fifo_alloc(fifo, 16000);
        }
        for (int k = 0; k < 3; k++) {
            ps_fifo_free(fifo, pair[k]);
        }
    }
    CHECK_CMP(source.calls - before, <=, ps_debug_is_malloc() ? 0 : 2);
    WHEN("the block is larger than a chunk");
    ps_fifo_free(fifo, ps_fifo_alloc(fifo, 100000));
    before = source.calls;
    for (int i = 0; i < 1000; i++) {
        ps_fifo_free(fifo, ps_fifo_alloc(fifo, 100000 - (size_t)i));
    }
    CHECK_EQ(source.calls, before);
    ps_fifo_free(fifo, pin);
    ps_fifo_destroy_now(fifo);
    CHECK_EQ(source.live_count, 0);
}

TEST(a_window_uses_as_many_chunks_as_it_spans) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_fifo *fifo = new_fifo(&source, 1);
    enum { WINDOW = 10000 };
    static char *window[WINDOW];
    for (size_t i = 0; i < 20 * WINDOW; i++) {
        ps_fifo_free(fifo, window[i % WINDOW]);
        window[i % WINDOW] = ps_fifo_alloc(fifo, 48);
        window[i % WINDOW][0] = 1;
    }
    if (has_layout()) {
        CHECK_CMP(source.live_bytes, <=, WINDOW * 48 + 3 * CHUNK);
        CHECK_CMP(stats_of(fifo).used_bytes, <=, WINDOW * 48 + 2 * CHUNK);
    }
    CHECK_EQ(stats_of(fifo).live_count, WINDOW);
    for (size_t i = 0; i < WINDOW; i++) {
        ps_fifo_free(fifo, window[i]);
    }
    ps_fifo_destroy(fifo);
    CHECK_EQ(source.live_count, 0);
}

TEST(one_long_lived_block_holds_one_chunk) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_fifo *fifo = new_fifo(&source, 1);
    char *kept = NULL;
    for (size_t i = 0; i < 100000; i++) {
        char *block = ps_fifo_alloc(fifo, 64);
        if (i == 5000) {
            kept = block;
        } else {
            ps_fifo_free(fifo, block);
        }
    }
    CHECK_CMP(source.live_count, <=, 3);
    ps_fifo_free(fifo, kept);
    ps_fifo_destroy(fifo);
    CHECK_EQ(source.live_count, 0);
}

TEST(spare_chunks_stay_below_their_limit) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_fifo *fifo = new_fifo(&source, 3 * CHUNK);
    static char *blocks[1000];
    for (size_t i = 0; i < 1000; i++) {
        blocks[i] = ps_fifo_alloc(fifo, 1000 + i * 3 % 20000);
    }
    for (size_t i = 0; i < 1000; i++) {
        ps_fifo_free(fifo, blocks[(i * 7) % 1000]);
        CHECK_CMP(stats_of(fifo).spare_bytes, <=, 3 * CHUNK);
    }
    struct ps_fifo_stats stats = stats_of(fifo);
    CHECK_EQ(stats.live_count, 0);
    CHECK_EQ(stats.used_bytes, 0);
    if (has_layout()) {
        CHECK_CMP(stats.spare_bytes, >=, CHUNK);
        CHECK_EQ(stats.chunk_bytes, source.live_bytes);
        CHECK_EQ(stats.chunk_count, source.live_count);
    }
    size_t spare = stats.spare_bytes;
    CHECK_EQ(ps_fifo_trim_to(fifo, spare), 0);
    size_t before = stats.chunk_bytes; /* of these, the current chunk is without a block */
    CHECK_EQ(ps_fifo_trim_to(fifo, 0), before - stats_of(fifo).chunk_bytes);
    CHECK_EQ(stats_of(fifo).chunk_count, 1);
    CHECK_EQ(stats_of(fifo).spare_bytes, 0);
    ps_fifo_destroy(fifo);
    CHECK_EQ(source.live_count, 0);
}

TEST(realloc_shrinks_in_place_and_grows_the_newest_of_each_chunk) {
    struct ps_fifo *fifo = ps_fifo_create(NULL);
    char *first = ps_fifo_alloc(fifo, 100);
    memset(first, 7, 100);
    CHECK_PTR_EQ(ps_fifo_realloc(fifo, first, 100, 50), first);
    if (has_layout()) {
        CHECK_PTR_EQ(ps_fifo_realloc(fifo, first, 50, 5000), first);
        char *second = ps_fifo_alloc(fifo, 16);
        CHECK_CMP((uintptr_t)second, >=, (uintptr_t)first + 5000);
        WHEN("it is not the newest");
        char *moved = ps_fifo_realloc(fifo, first, 5000, 5001);
        CHECK(moved != first);
        CHECK_EQ(moved[49], 7);
        first = moved;
    } else {
        first = ps_fifo_realloc(fifo, first, 50, 5001);
    }
    first = ps_fifo_realloc(fifo, first, 5001, 200000);
    CHECK_EQ(first[49], 7);
    WHEN("the block is to be aligned more");
    first = ps_fifo_realloc_aligned(fifo, first, 200000, 300, 4096);
    CHECK_EQ((uintptr_t)first % 4096, 0);
    CHECK_EQ(first[49], 7);
    WHEN("there is no block, or no size");
    char *fresh = ps_fifo_realloc(fifo, NULL, 0, 10);
    CHECK(fresh != NULL);
    fresh = ps_fifo_realloc(fifo, fresh, 10, 0);
    CHECK(fresh != NULL);
    fresh = ps_fifo_realloc(fifo, fresh, 0, 10);
    CHECK(fresh != NULL);
    errno = 0;
    CHECK(ps_fifo_realloc_aligned(fifo, fresh, 10, 20, 3) == NULL);
    CHECK_EQ(errno, EINVAL);
    ps_fifo_destroy_now(fifo);
}

TEST(the_newest_block_of_a_full_chunk_still_grows) {
    if (!has_layout()) {
        return;
    }
    struct ps_fifo *fifo = ps_fifo_create(NULL);
    char *newest = NULL;
    for (int i = 0; i < 4; i++) {
        newest = ps_fifo_alloc(fifo, 15000);
    }
    char *next = ps_fifo_alloc(fifo, 15000);
    CHECK((uintptr_t)next / CHUNK != (uintptr_t)newest / CHUNK);
    CHECK_PTR_EQ(ps_fifo_realloc(fifo, newest, 15000, 17000), newest);
    CHECK(ps_fifo_realloc(fifo, newest, 17000, 40000) != newest);
    ps_fifo_destroy_now(fifo);
}

TEST(chunks_may_be_small_and_may_grow) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_fifo_options options = {
        .chunks = {.source = &source.source, .first_bytes = 4096, .max_bytes = 20000, .name = "n"}};
    struct ps_fifo *fifo = ps_fifo_create(&options);
    CHECK_EQ(ps_fifo_align_max(fifo), 16384);
    CHECK_STR_EQ(ps_fifo_name(fifo), "n");
    if (has_layout()) {
        CHECK_EQ(source.live_bytes, 4096);
    }
    char *outside = malloc(1);
    CHECK(!ps_fifo_owns(fifo, outside));
    free(outside);
    for (int i = 0; i < 100; i++) {
        CHECK(ps_fifo_alloc(fifo, 1000) != NULL);
    }
    CHECK(ps_fifo_owns(fifo, ps_fifo_alloc_aligned(fifo, 40000, 16384)));
    ps_fifo_destroy_now(fifo);
    CHECK_EQ(source.live_count, 0);
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
