/* SPDX-License-Identifier: MIT */
/*
 * A ring of regions: a block lives for count - 1 rounds more, and rounds take no memory
 * from the source once they have what they need.
 */
#include "tests/unit/unit.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"

#include <poolshim/frames.h>

static unsigned ended;

static void count_end(void *unused) {
    (void)unused;
    ended++;
}

TEST(memory_lives_for_the_rounds_promised) {
    for (unsigned count = 1; count <= 5; count++) {
        struct ps_frames *frames = ps_frames_create(count, NULL);
        unsigned *made[100];
        ended = 0;
        for (unsigned round = 0; round < 100; round++) {
            struct ps_region *now = ps_frames_next(frames);
            CHECK(now == ps_frames_current(frames));
            CHECK(now == ps_frames_before(frames, 0));
            made[round] = PS_REGION_NEW(now, unsigned, 1);
            *made[round] = round;
            ps_region_on_destroy(now, count_end, NULL);
            for (unsigned age = 0; age < count && age <= round; age++) {
                CHECK_EQ(*made[round - age], round - age);
                CHECK(ps_region_owns(ps_frames_before(frames, age), made[round - age]));
            }
            CHECK(ps_frames_before(frames, count) == NULL);
            CHECK_EQ(ended, round < count ? 0 : round - count + 1);
        }
        ps_frames_destroy(frames);
        CHECK_EQ(ended, 100);
    }
}

TEST(rounds_take_nothing_from_the_source_in_the_steady_state) {
    NEEDS_CHUNKS();
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_region_options options = {.chunks = {.source = &source.source}};
    struct ps_frames *frames = ps_frames_create(3, &options);
    size_t calls = 0;
    for (int round = 0; round < 30; round++) {
        for (int i = 0; i < 1000; i++) {
            CHECK(ps_region_alloc(ps_frames_current(frames), 100) != NULL);
        }
        ps_frames_next(frames);
        if (round == 3) {
            calls = source.calls;
        }
    }
    CHECK_EQ(source.calls, calls);
    CHECK_CMP(ps_frames_trim_to(frames, 0), >, 0);
    ps_frames_destroy(frames);
    CHECK_EQ(source.live_count, 0);
}

TEST(bad_counts_and_missing_memory_are_refused) {
    NEEDS_CHUNKS();
    errno = 0;
    CHECK(ps_frames_create(0, NULL) == NULL);
    CHECK_EQ(errno, EINVAL);
    CHECK(ps_frames_create(PS_FRAMES_MAX + 1, NULL) == NULL);
    ps_frames_destroy(NULL);
    for (size_t calls = 0; calls < 5; calls++) {
        struct counting_source source = new_source(calls);
        struct ps_region_options options = {.chunks = {.source = &source.source}};
        errno = 0;
        struct ps_frames *frames = ps_frames_create(4, &options);
        CHECK(frames == NULL);
        CHECK_EQ(errno, ENOMEM);
        CHECK_EQ(source.live_count, 0);
    }
}

UNIT_MAIN
