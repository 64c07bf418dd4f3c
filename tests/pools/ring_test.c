/* SPDX-License-Identifier: MIT */
/*
 * Rings with one thread: what the manual claims, each trap of the original, checkpoints, in all
 * modes. Several threads: ring_threads_test.c.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"

#include <poolshim/ring.h>

#define FIRST ((size_t)64 << 10)

static struct ps_ring *new_ring(struct counting_source *source, size_t spare_bytes) {
    struct ps_ring_options options = {.chunks = {.source = &source->source},
                                      .spare_bytes = spare_bytes};
    struct ps_ring *ring = ps_ring_create(&options);
    REQUIRE(ring != NULL);
    return ring;
}

static struct ps_ring_stats stats_of(struct ps_ring *ring) {
    struct ps_ring_stats stats;
    ps_ring_stats(ring, &stats);
    return stats;
}

/* A sealed frame of `count` blocks of `bytes`, each full of `fill`; *first: the first block. */
static struct ps_ring_frame *fill_frame(struct ps_ring *ring, size_t count, size_t bytes,
                                        unsigned char fill, unsigned char **first) {
    struct ps_ring_frame *frame = ps_ring_begin(ring);
    REQUIRE(frame != NULL);
    for (size_t i = 0; i < count; i++) {
        unsigned char *block = ps_ring_alloc(ring, bytes);
        REQUIRE(block != NULL);
        memset(block, fill, bytes);
        if (i == 0) {
            *first = block;
        }
    }
    ps_ring_seal(ring);
    return frame;
}

TEST(blocks_of_a_frame_lie_side_by_side) {
    struct ps_ring *ring = ps_ring_create(NULL);
    struct ps_ring_frame *frame = ps_ring_begin(ring);
    char *first = ps_ring_alloc_aligned(ring, 8, 8);
    char *second = ps_ring_alloc_aligned(ring, 8, 8);
    char *third = ps_ring_alloc_aligned(ring, 3, 1);
    char *fourth = ps_ring_alloc_aligned(ring, 3, 1);
    if (!ps_debug_is_malloc()) {
        CHECK_PTR_EQ(second, first + (has_canaries() ? 80 : 8));
        CHECK_PTR_EQ(third, second + (has_canaries() ? 80 : 8));
        CHECK_PTR_EQ(fourth, third + (has_canaries() ? 80 : 3));
    }
    ps_ring_seal(ring);
    ps_ring_release(frame);
    ps_ring_release(NULL);
    ps_ring_destroy(ring);
    ps_ring_destroy(NULL);
}

TEST(every_alignment_and_size_is_honoured) {
    struct ps_ring *ring = ps_ring_create(NULL);
    struct ps_ring_frame *frame = ps_ring_begin(ring);
    char *last = NULL;
    for (size_t align = 1; align <= 4 * FIRST; align *= 2) {
        for (size_t bytes = 0; bytes <= 3 * FIRST; bytes = bytes * 3 + 1) {
            char *block = ps_ring_alloc_aligned(ring, bytes, align);
            REQUIRE(block != NULL && block != last);
            CHECK_EQ((uintptr_t)block % align, 0);
            memset(block, 1, bytes);
            last = block;
        }
    }
    static const size_t bad[] = {0, 3, 24, SIZE_MAX};
    for (size_t i = 0; i < 4; i++) {
        errno = 0;
        CHECK(ps_ring_alloc_aligned(ring, 1, bad[i]) == NULL);
        CHECK_EQ(errno, EINVAL);
    }
    ps_ring_seal(ring);
    ps_ring_release(frame);
    ps_ring_destroy(ring);
}

TEST(sizes_that_overflow_are_memory_that_is_out) {
    struct ps_ring *ring = ps_ring_create(NULL);
    struct ps_ring_frame *frame = ps_ring_begin(ring);
    static const size_t sizes[] = {SIZE_MAX,        SIZE_MAX - 1, SIZE_MAX - 15,
                                   SIZE_MAX - 4096, SIZE_MAX / 2, SIZE_MAX / 2 - 64};
    char *block = ps_ring_alloc(ring, 8);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        for (size_t align = 1; align != 0; align *= 2) {
            errno = 0;
            CHECK(ps_ring_alloc_aligned(ring, sizes[i], align) == NULL);
            CHECK_EQ(errno, ENOMEM);
        }
        CHECK(ps_ring_realloc(ring, block, 8, sizes[i]) == NULL);
        CHECK(ps_ring_zalloc(ring, sizes[i]) == NULL);
    }
    CHECK(ps_ring_alloc_aligned(ring, 8, (size_t)1 << 63) == NULL);
    ps_ring_seal(ring);
    ps_ring_release(frame);
    ps_ring_destroy(ring);
}

TEST(a_frame_that_comes_and_goes_stays_where_it_is) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_ring *ring = new_ring(&source, 0);
    unsigned char *place = NULL;
    for (int i = 0; i < 1000; i++) {
        unsigned char *block;
        struct ps_ring_frame *frame = fill_frame(ring, 10, 100, 1, &block);
        ps_ring_release(frame);
        CHECK(place == NULL || place == block || ps_debug_is_malloc());
        place = block;
    }
    CHECK_CMP(source.live_count, <=, 1);
    WHEN("the frame is longer than a chunk");
    size_t warm = 0;
    for (int i = 0; i < 100; i++) {
        unsigned char *block;
        ps_ring_release(fill_frame(ring, 1000, 200, 1, &block));
        if (i == 10) {
            warm = source.calls;
        }
    }
    CHECK_EQ(source.calls, warm);
    CHECK_EQ(stats_of(ring).frame_count, 0);
    ps_ring_destroy(ring);
    CHECK_EQ(source.live_count, 0);
}

TEST(frames_stay_until_they_are_released_in_any_order) {
    enum { FLIGHT = 64, ROUNDS = 3000 / FRESH_SLOWNESS };
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_ring *ring = new_ring(&source, 0);
    struct {
        struct ps_ring_frame *frame;
        unsigned char *first;
        unsigned char fill;
        size_t bytes;
    } flight[FLIGHT] = {0};
    size_t peak = 0;
    for (size_t i = 0; i < ROUNDS; i++) {
        size_t slot = unit_random() % FLIGHT;
        if (flight[slot].frame != NULL) {
            for (size_t k = 0; k < flight[slot].bytes; k++) {
                REQUIRE(flight[slot].first[k] == flight[slot].fill);
            }
            ps_ring_release(flight[slot].frame);
        }
        flight[slot].fill = (unsigned char)i;
        flight[slot].bytes = unit_random() % 3000 + (i % 100 == 0 ? 100000 : 0);
        flight[slot].frame = fill_frame(ring, 1 + unit_random() % 4, flight[slot].bytes,
                                        flight[slot].fill, &flight[slot].first);
        peak = source.live_bytes > peak ? source.live_bytes : peak;
    }
    THEN("the memory is at most a few times that of live frames");
    CHECK_CMP(peak, <, 6 << 20);
    size_t live = 0;
    for (size_t slot = 0; slot < FLIGHT; slot++) {
        live += flight[slot].frame != NULL;
    }
    CHECK_EQ(stats_of(ring).frame_count, live);
    for (size_t slot = 0; slot < FLIGHT; slot++) {
        ps_ring_release(flight[slot].frame);
    }
    CHECK_EQ(stats_of(ring).frame_count, 0);
    if (!ps_debug_is_malloc()) {
        CHECK_EQ(stats_of(ring).chunk_bytes, source.live_bytes);
        CHECK_EQ(stats_of(ring).chunk_count, source.live_count);
    }
    ps_ring_trim_to(ring, 0);
    CHECK_CMP(source.live_count, <=, 2);
    ps_ring_destroy(ring);
    CHECK_EQ(source.live_count, 0);
}

TEST(realloc_grows_and_shrinks_the_newest_block_in_place) {
    struct ps_ring *ring = ps_ring_create(NULL);
    struct ps_ring_frame *frame = ps_ring_begin(ring);
    char *first = ps_ring_alloc(ring, 100);
    memset(first, 7, 100);
    CHECK_PTR_EQ(ps_ring_realloc(ring, first, 100, 50), first);
    if (!ps_debug_is_malloc()) {
        CHECK_PTR_EQ(ps_ring_realloc(ring, first, 50, 5000), first);
        CHECK_CMP((uintptr_t)ps_ring_alloc(ring, 1), <, (uintptr_t)first + 5016 + canary_bytes());
    } else {
        first = ps_ring_realloc(ring, first, 50, 5000);
    }
    char *moved = ps_ring_realloc(ring, first, 5000, 5001);
    CHECK(moved != first);
    CHECK_EQ(moved[49], 7);
    CHECK_PTR_EQ(ps_ring_realloc(ring, moved, 5001, 0), moved);
    moved = ps_ring_realloc(ring, moved, 0, 3);
    moved = ps_ring_realloc_aligned(ring, moved, 3, 200000, 4096);
    CHECK_EQ((uintptr_t)moved % 4096, 0);
    CHECK(ps_ring_realloc(ring, NULL, 0, 10) != NULL);
    errno = 0;
    CHECK(ps_ring_realloc_aligned(ring, moved, 200000, 1, 3) == NULL);
    CHECK_EQ(errno, EINVAL);
    char *zero = ps_ring_zalloc(ring, 1000);
    CHECK(zero[0] == 0 && memcmp(zero, zero + 1, 999) == 0);
    ps_ring_seal(ring);
    ps_ring_release(frame);
    ps_ring_destroy(ring);
}

TEST(rewind_drops_what_came_after_the_checkpoint) {
    for (size_t block_bytes = 100; block_bytes < 400000; block_bytes *= 3) {
        struct counting_source source = new_source(SIZE_MAX);
        struct ps_ring *ring = new_ring(&source, 1);
        unsigned char *kept;
        struct ps_ring_frame *before = fill_frame(ring, 3, block_bytes, 1, &kept);
        struct ps_ring_frame *frame = ps_ring_begin(ring);
        char *block = ps_ring_alloc(ring, block_bytes);
        memset(block, 2, block_bytes);
        struct ps_ring_checkpoint checkpoint = ps_ring_checkpoint(ring);
        size_t held = source.live_bytes;
        struct ps_ring_frame *released[20];
        for (int i = 0; i < 20; i++) {
            unsigned char *ignored;
            released[i] = fill_frame(ring, 5, block_bytes, 3, &ignored);
        }
        for (int i = 0; i < 20; i += 3) {
            ps_ring_release(released[i]);
        }
        if (block_bytes % 2 == 0) {
            CHECK(ps_ring_begin(ring) != NULL);
            CHECK(ps_ring_alloc(ring, block_bytes) != NULL);
        }
        ps_ring_rewind(ring, &checkpoint);
        THEN("the frame is open again, and grows where it ended");
        CHECK_EQ(stats_of(ring).frame_count, 2);
        CHECK_CMP(source.live_bytes, <=, held);
        char *next = ps_ring_alloc(ring, 16);
        memset(next, 4, 16);
        CHECK(block_bytes != 100 || ps_debug_is_malloc() ||
              next == block + (has_canaries() ? 176 : 112));
        CHECK_EQ(block[block_bytes - 1], 2);
        CHECK_EQ(kept[block_bytes - 1], 1);
        ps_ring_seal(ring);
        ps_ring_release(before);
        for (int i = 0; i < 3; i++) {
            unsigned char *ignored;
            ps_ring_release(fill_frame(ring, 50, block_bytes, 5, &ignored));
        }
        CHECK_EQ(block[0], 2);
        ps_ring_release(frame);
        CHECK_EQ(stats_of(ring).frame_count, 0);
        ps_ring_destroy(ring);
        CHECK_EQ(source.live_count, 0);
    }
}

TEST(a_ring_lives_until_its_last_frame_is_released) {
    enum { COUNT = 100 };
    struct counting_source source = new_source(SIZE_MAX);
    for (int order = 0; order < 3; order++) {
        struct ps_ring *ring = new_ring(&source, 0);
        struct ps_ring_frame *frames[COUNT];
        unsigned char *first[COUNT];
        for (int i = 0; i < COUNT; i++) {
            frames[i] = fill_frame(ring, 3, i % 10 == 0 ? 100000 : 3000, 1, &first[i]);
        }
        CHECK(ps_ring_begin(ring) != NULL);
        CHECK(ps_ring_alloc(ring, 100000) != NULL);
        size_t full = source.live_bytes;
        ps_ring_destroy(ring);
        for (int i = 0; i < COUNT; i++) {
            int index = order == 0 ? i : order == 1 ? COUNT - 1 - i : (i * 37) % COUNT;
            CHECK_EQ(first[index][2999], 1);
            ps_ring_release(frames[index]);
            if (i == COUNT - 2 && !ps_debug_is_malloc()) {
                CHECK_CMP(source.live_bytes, <, full / 2);
                CHECK_CMP(source.live_bytes, >, 0);
            }
        }
        CHECK_EQ(source.live_count, 0);
    }
}

static struct ps_ring *new_ring_of_spares(struct counting_source *source) {
    struct ps_ring *ring = new_ring(source, 5 * FIRST);
    struct ps_ring_frame *frames[50];
    unsigned char *ignored;
    for (int i = 0; i < 50; i++) {
        frames[i] = fill_frame(ring, 10, 5000, 1, &ignored);
    }
    for (int i = 0; i < 50; i++) {
        ps_ring_release(frames[i]);
        CHECK_CMP(stats_of(ring).spare_bytes, <=, 5 * FIRST);
    }
    return ring;
}

TEST(trim_and_the_limit_bound_what_is_kept) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_ring *ring = new_ring_of_spares(&source);
    size_t spare = stats_of(ring).spare_bytes;
    CHECK_CMP(spare, >, ps_debug_is_malloc() ? -1 : 0);
    ps_ring_trim_to(ring,
                    spare); /* of the current chunk at most, which is longer than all spares */
    CHECK_CMP(stats_of(ring).spare_bytes, ==, spare);
    CHECK_EQ(ps_ring_trim_to(ring, 0), spare);
    CHECK_EQ(stats_of(ring).chunk_count, 1);
    CHECK_EQ(stats_of(ring).spare_bytes, 0);
    CHECK_STR_EQ(ps_ring_name(ring), "ring");
    errno = 77;
    ps_ring_destroy(ring);
    CHECK_EQ(errno, 77);
    CHECK_EQ(source.live_count, 0);
}

TEST(trim_tells_what_went_back) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_ring *ring = new_ring_of_spares(&source);
    size_t before = source.live_bytes; /* the released chunks are found by trim itself */
    size_t given = ps_ring_trim_to(ring, FIRST);
    CHECK_EQ(given, before - source.live_bytes);
    ps_ring_destroy(ring);
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
