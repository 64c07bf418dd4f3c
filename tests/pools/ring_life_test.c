/* SPDX-License-Identifier: MIT */
/*
 * Rings: memory that runs out at every call, misuse, and random calls against an array of the
 * frames that are alive, in all modes.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/modes.h"
#include "tests/pools/respawn.h"

#include <poolshim/ring.h>
#include <pthread.h>

static struct ps_ring_stats stats_of(struct ps_ring *ring) {
    struct ps_ring_stats stats;
    ps_ring_stats(ring, &stats);
    return stats;
}

/* A frame of 20 blocks, released at once or later. Returns how many calls failed. */
static size_t use_ring(struct ps_ring *ring, size_t index, struct ps_ring_frame **kept) {
    size_t failures = 0;
    struct ps_ring_stats before = stats_of(ring);
    struct ps_ring_frame *frame = ps_ring_begin(ring);
    if (frame == NULL) {
        struct ps_ring_stats after = stats_of(ring);
        CHECK(memcmp(&before, &after, sizeof before) == 0);
        *kept = NULL;
        return 1;
    }
    for (size_t i = 0; i < 20; i++) {
        errno = 0;
        char *block = ps_ring_alloc(ring, i == index % 20 ? 200000 : 3000);
        if (block == NULL) {
            CHECK_EQ(errno, ENOMEM);
            failures++;
        } else {
            memset(block, 1, 3000);
        }
    }
    ps_ring_seal(ring);
    if (index % 3 == 0) {
        ps_ring_release(frame);
        frame = NULL;
    }
    *kept = frame;
    return failures;
}

TEST(memory_that_runs_out_at_any_call_changes_nothing) {
    if (ps_debug_is_malloc()) {
        return;
    }
    for (size_t fail_at = 1; fail_at < 40; fail_at++) {
        struct counting_source source = new_source(fail_at - 1);
        struct ps_ring_options options = {
            .chunks = {.source = &source.source, .oom = give_up_at_second, .oom_context = &source}};
        struct ps_ring *ring = ps_ring_create(&options);
        size_t failures = ring == NULL;
        struct ps_ring_frame *kept[30] = {0};
        for (size_t i = 0; ring != NULL && i < 30; i++) {
            failures += use_ring(ring, i, &kept[i]);
        }
        CHECK_EQ(failures, source.calls >= fail_at);
        CHECK(failures == 1 || fail_at > 10);
        ps_ring_destroy(ring);
        for (size_t i = 0; i < 30; i++) {
            ps_ring_release(kept[i]);
        }
        CHECK_EQ(source.live_count, 0);
    }
}

TEST(a_frame_begins_in_a_new_chunk_or_not_at_all) {
    if (ps_debug_is_malloc()) {
        return;
    }
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_ring_options options = {
        .chunks = {.source = &source.source, .first_bytes = 4096, .max_bytes = 4096}};
    struct ps_ring *ring = ps_ring_create(&options);
    source.calls_max = source.calls;
    static struct ps_ring_frame *frames[1000];
    size_t count = 0;
    while (count < 1000 && (frames[count] = ps_ring_begin(ring)) != NULL) {
        ps_ring_seal(ring);
        count++;
    }
    CHECK_CMP(count, >, 50);
    CHECK_CMP(count, <, 100);
    source.calls_max = SIZE_MAX;
    frames[count] = ps_ring_begin(ring);
    CHECK(frames[count] != NULL);
    ps_ring_seal(ring);
    CHECK_EQ(stats_of(ring).frame_count, count + 1);
    for (size_t i = 0; i <= count; i++) {
        ps_ring_release(frames[i]);
    }
    ps_ring_destroy(ring);
    CHECK_EQ(source.live_count, 0);
}

/* A sealed frame and its checkpoints, as an array knows them. */
struct model_frame {
    struct ps_ring_frame *frame;
    unsigned char *blocks[8];
    size_t bytes[8];
    unsigned char fill;
};

static void check_frame(const struct model_frame *model) {
    for (size_t i = 0; i < 8; i++) {
        for (size_t k = 0; k < model->bytes[i]; k++) {
            if (model->blocks[i][k] != model->fill) {
                CHECK_EQ(model->blocks[i][k], model->fill);
                return;
            }
        }
    }
}

static void fill_model(struct ps_ring *ring, struct model_frame *model, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) {
        uint64_t random = unit_random();
        model->bytes[i] = random % 64 == 0 ? random / 64 % 100000 : random / 64 % 500;
        size_t align = (size_t)1 << random / 65536 % 9;
        model->blocks[i] = ps_ring_alloc_aligned(ring, model->bytes[i], align);
        REQUIRE(model->blocks[i] != NULL);
        CHECK_EQ((uintptr_t)model->blocks[i] % align, 0);
        if (random % 5 == 0) {
            size_t bytes = random / 256 % 700;
            model->blocks[i] =
                ps_ring_realloc_aligned(ring, model->blocks[i], model->bytes[i], bytes, align);
            model->bytes[i] = bytes;
        }
        memset(model->blocks[i], model->fill, model->bytes[i]);
    }
}

/* Frames since a checkpoint, some released, all gone after the rewind. */
static void make_and_rewind(struct ps_ring *ring, struct model_frame *model) {
    struct ps_ring_checkpoint checkpoint = ps_ring_checkpoint(ring);
    for (size_t i = unit_random() % 40; i > 0; i--) {
        struct model_frame dropped = {.frame = ps_ring_begin(ring), .fill = 0xee};
        fill_model(ring, &dropped, 0, 8);
        if (i > 1 || unit_random() % 2 == 0) {
            ps_ring_seal(ring);
            if (unit_random() % 3 == 0) {
                ps_ring_release(dropped.frame);
            }
        }
    }
    ps_ring_rewind(ring, &checkpoint);
    check_frame(model);
}

TEST(random_calls_agree_with_the_model) {
    enum { FRAMES = 200, STEPS = 8000 / FRESH_SLOWNESS };
    static struct model_frame frames[FRAMES];
    for (size_t round = 0; round < 3; round++) {
        struct counting_source source = new_source(SIZE_MAX);
        struct ps_ring_options options = {
            .chunks = {.source = &source.source, .first_bytes = 4096 << round},
            .spare_bytes = (size_t)1 << (round * 10)};
        struct ps_ring *ring = ps_ring_create(&options);
        size_t live = 0;
        for (size_t i = 0; i < STEPS / (ps_debug_is_check() ? 4 : 1); i++) {
            struct model_frame *model = &frames[unit_random() % (i % 500 < 250 ? FRAMES : 5)];
            if (model->frame != NULL) {
                check_frame(model);
                ps_ring_release(model->frame);
                *model = (struct model_frame){0};
                live--;
                continue;
            }
            *model = (struct model_frame){.frame = ps_ring_begin(ring), .fill = (unsigned char)i};
            fill_model(ring, model, 0, 4);
            if (i % 20 == 0) {
                make_and_rewind(ring, model);
            }
            fill_model(ring, model, 4, 8);
            ps_ring_seal(ring);
            live++;
            if (i % 16 == 0) {
                CHECK_EQ(stats_of(ring).frame_count, live);
            }
        }
        ps_ring_destroy(ring);
        for (size_t i = 0; i < FRAMES; i++) {
            check_frame(&frames[i]);
            ps_ring_release(frames[i].frame);
            frames[i] = (struct model_frame){0};
        }
        CHECK_EQ(source.live_count, 0);
    }
}

static void *use_from_another_thread(void *ring) { return ps_ring_begin(ring); }

static char *drawn(struct ps_ring *ring) {
    char *text = NULL;
    size_t bytes = 0;
    FILE *file = open_memstream(&text, &bytes);
    REQUIRE(file != NULL);
    ps_ring_dump(ring, file);
    fclose(file);
    return text;
}

static size_t count_of(const char *text, char wanted) {
    size_t count = 0;
    const char *legend = strstr(text, "o open");
    for (bool is_bar = false; text < legend; text++) {
        is_bar = *text == '|' ? !is_bar : is_bar;
        count += is_bar && *text == wanted;
    }
    return count;
}

/* Of 64 KiB chunks, a cell is 1 KiB. */
TEST(the_dump_draws_which_frames_hold_memory) {
    NEEDS_CHUNKS();
    struct ps_ring *ring = ps_ring_create(NULL);
    struct ps_ring_frame *frames[3];
    for (size_t i = 0; i < 3; i++) {
        frames[i] = ps_ring_begin(ring);
        REQUIRE(ps_ring_alloc(ring, 15 << 10) != NULL);
        ps_ring_seal(ring);
    }
    ps_ring_release(frames[1]);
    char *text = drawn(ring);
    CHECK(strstr(text, "ring ring: ") == text && strstr(text, "| tail head\n") != NULL);
    CHECK_CMP(count_of(text, '#'), >=, 29);
    CHECK_CMP(count_of(text, '#'), <=, 34);
    CHECK_CMP(count_of(text, '-'), >=, 13);
    CHECK_CMP(count_of(text, '.'), >=, 15);
    CHECK(strchr(strchr(text, '|'), '#') < strchr(text, '-'));
    free(text);
    struct ps_ring_frame *open = ps_ring_begin(ring); /* over the end of the chunk */
    for (size_t i = 0; i < 40; i++) {
        REQUIRE(ps_ring_alloc(ring, 1 << 10) != NULL);
    }
    text = drawn(ring);
    CHECK(strstr(text, "in 2 chunks") != NULL && strstr(text, "| tail\n") != NULL);
    CHECK(strstr(text, "| head\n") != NULL);
    CHECK_CMP(count_of(text, 'o'), >=, 20);
    free(text);
    ps_ring_seal(ring);
    ps_ring_release(open);
    ps_ring_release(frames[0]);
    ps_ring_release(frames[2]);
    text = drawn(ring);
    CHECK_EQ(count_of(text, '#') + count_of(text, 'o'), 0);
    free(text);
    ps_ring_destroy(ring);
}

TEST(misuse_is_found) {
    struct ps_ring *ring = ps_ring_create(NULL);
    CHECK_ABORTS(CHECK(ps_ring_alloc(ring, 1) == NULL),
                 "poolshim: block taken with no frame open: ring 0x");
    CHECK_ABORTS(ps_ring_realloc(ring, ring, 1, 2),
                 "poolshim: block taken with no frame open: ring 0x");
    CHECK_ABORTS(ps_ring_seal(ring), "poolshim: sealed with no frame open: ring 0x");
    CHECK_ABORTS(ps_ring_checkpoint(ring), "poolshim: sealed with no frame open: ring 0x");
    struct ps_ring_frame *frame = ps_ring_begin(ring);
    CHECK_ABORTS(ps_ring_begin(ring), "poolshim: frame begun while another is open: ring 0x");
    CHECK_ABORTS(ps_ring_release(frame), "poolshim: released before it was sealed: frame 0x");
    struct ps_ring_checkpoint checkpoint = ps_ring_checkpoint(ring);
    ps_ring_release(frame);
    CHECK_ABORTS(ps_ring_release(frame), "poolshim: released twice: frame 0x");
    CHECK_ABORTS(ps_ring_rewind(ring, &checkpoint),
                 "poolshim: rewound to a frame that is released: frame 0x");
    struct ps_ring *other = ps_ring_create(NULL);
    frame = ps_ring_begin(other);
    checkpoint = ps_ring_checkpoint(other);
    CHECK_ABORTS(ps_ring_rewind(ring, &checkpoint),
                 "poolshim: rewound to a frame of another ring: frame 0x");
    struct ps_ring_frame garbage = {0};
    CHECK_ABORTS(ps_ring_release(&garbage), "poolshim: released, but not of a ring: frame 0x");
    ps_ring_release(frame);
    ps_ring_destroy(other);
    ps_ring_destroy(ring);
}

TEST(misuse_is_found_in_checked_mode) {
    if (!ps_debug_is_check()) {
        return;
    }
    struct ps_ring *ring = ps_ring_create(NULL);
    pthread_t thread;
    CHECK_ABORTS(pthread_create(&thread, NULL, use_from_another_thread, ring);
                 pthread_join(thread, NULL),
                 "poolshim: used by a thread that does not own it: ring 0x");
    struct ps_ring_frame *frame = ps_ring_begin(ring);
    unsigned char *block = ps_ring_alloc(ring, 100);
    memset(block, 1, 100);
    ps_ring_seal(ring);
    ps_ring_release(frame);
    if (!ps_debug_is_malloc()) {
        ps_unpoison_defined(block, 100);
        CHECK_EQ(block[50], 0xdd);
    }
    ps_ring_adopt(ring);
    ps_ring_destroy(ring);
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
