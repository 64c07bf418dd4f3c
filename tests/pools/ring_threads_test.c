/* SPDX-License-Identifier: MIT */
/*
 * Rings whose frames other threads release: in random order, while the owner allocates, seals,
 * trims and destroys; and the rings of threads that ended. Frames go from the owner to the others
 * through slots that the owner only writes, so that ThreadSanitizer sees no order from a release
 * back to the owner but the ring's own.
 */
#include "tests/unit/fresh.h"

#include "tests/pools/counting_source.h"
#include "tests/pools/respawn.h"

#include <poolshim/pages.h>
#include <poolshim/ring.h>
#include <pthread.h>

enum { RELEASERS = 4, FRAMES = 2000 };

struct shared {
    struct ps_ring_frame *x_slots[FRAMES]; /* written once by the owner */
    unsigned char *blocks[FRAMES];         /* published by x_slots */
    size_t bytes[FRAMES];
    size_t x_wrong_count;
};

struct releaser {
    struct shared *shared;
    size_t index;
    uint64_t random;
};

static uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

/* Reads and writes the blocks, as a program would, and releases the frame. */
static void take_frame(struct shared *shared, size_t slot, struct ps_ring_frame *frame) {
    unsigned char *block = shared->blocks[slot];
    size_t wrong = 0;
    for (size_t i = 0; i < shared->bytes[slot]; i++) {
        wrong += block[i] != (unsigned char)slot;
        block[i] = 0xff;
    }
    if (wrong != 0) {
        __atomic_fetch_add(&shared->x_wrong_count, wrong, __ATOMIC_RELAXED);
    }
    ps_ring_release(frame);
}

/* Each has its own slots, and takes them in random order as they are filled. */
static void *release_frames(void *argument) {
    struct releaser *releaser = argument;
    size_t own[FRAMES / RELEASERS];
    size_t count = FRAMES / RELEASERS;
    for (size_t i = 0; i < count; i++) {
        own[i] = i * RELEASERS + releaser->index;
    }
    for (size_t tries = 0; count > 0; tries++) {
        size_t window = count < 64 ? count : 64;
        size_t at = next_random(&releaser->random) % window;
        struct ps_ring_frame *frame =
            __atomic_load_n(&releaser->shared->x_slots[own[at]], __ATOMIC_ACQUIRE);
        if (frame != NULL) {
            take_frame(releaser->shared, own[at], frame);
            count--;
            memmove(own + at, own + at + 1, (count - at) * sizeof *own);
        } else if (tries % 64 == 0) {
            sched_yield();
        }
    }
    return NULL;
}

static void make_frame(struct ps_ring *ring, struct shared *shared, size_t slot) {
    struct ps_ring_frame *frame = ps_ring_begin(ring);
    REQUIRE(frame != NULL);
    size_t bytes = slot % 500 == 0 ? 100000 : unit_random() % 900;
    for (size_t i = slot % 3; i > 0; i--) {
        memset(ps_ring_alloc(ring, bytes), 0, bytes);
    }
    shared->bytes[slot] = bytes;
    shared->blocks[slot] = ps_ring_alloc(ring, bytes);
    memset(shared->blocks[slot], (int)slot, bytes);
    ps_ring_seal(ring);
    __atomic_store_n(&shared->x_slots[slot], frame, __ATOMIC_RELEASE);
}

static void run_ring(size_t round, size_t first_bytes) {
    struct counting_source source = new_source(SIZE_MAX);
    struct ps_ring_options options = {
        .chunks = {.source = &source.source, .first_bytes = first_bytes, .max_bytes = 1 << 17},
        .spare_bytes = round % 2 == 0 ? 1 : 0};
    struct ps_ring *ring = ps_ring_create(&options);
    struct shared *shared = calloc(1, sizeof *shared);
    struct releaser releasers[RELEASERS];
    pthread_t threads[RELEASERS];
    for (size_t i = 0; i < RELEASERS; i++) {
        releasers[i] = (struct releaser){shared, i, round * RELEASERS + i + 1};
        REQUIRE(pthread_create(&threads[i], NULL, release_frames, &releasers[i]) == 0);
    }
    for (size_t slot = 0; slot < FRAMES; slot++) {
        make_frame(ring, shared, slot);
        if (slot % 300 == 299) {
            struct ps_ring_stats stats;
            ps_ring_stats(ring, &stats);
            CHECK_CMP(stats.frame_count, <=, slot + 1);
            ps_ring_trim_to(ring, 4096);
        }
    }
    if (round % 3 == 0) {
        CHECK(ps_ring_begin(ring) != NULL);
    }
    WHEN("the ring is destroyed while its last frames are released");
    ps_ring_destroy(ring);
    for (size_t i = 0; i < RELEASERS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(shared->x_wrong_count, 0);
    CHECK_EQ(source.live_count, 0);
    free(shared);
}

TEST(several_threads_release_while_the_owner_allocates_and_destroys) {
    for (size_t round = 0; round < 10; round++) {
        run_ring(round, (size_t)4096 << round % 4);
    }
}

static void *release_one(void *frame) {
    ps_ring_release(frame);
    return NULL;
}

TEST(destroy_races_with_the_last_release) {
    for (size_t round = 0; round < 300 / FRESH_SLOWNESS; round++) {
        struct counting_source source = new_source(SIZE_MAX);
        struct ps_ring_options options = {.chunks = {.source = &source.source}};
        struct ps_ring *ring = ps_ring_create(&options);
        pthread_t threads[3];
        size_t count = 1 + round % 3;
        for (size_t i = 0; i < count; i++) {
            struct ps_ring_frame *frame = ps_ring_begin(ring);
            for (size_t k = 0; k < round % 5; k++) {
                CHECK(ps_ring_alloc(ring, 15000) != NULL);
            }
            ps_ring_seal(ring);
            REQUIRE(pthread_create(&threads[i], NULL, release_one, frame) == 0);
        }
        ps_ring_destroy(ring);
        for (size_t i = 0; i < count; i++) {
            pthread_join(threads[i], NULL);
        }
        CHECK_EQ(source.live_count, 0);
    }
}

/* Memory of the page cache that is in use. */
static size_t used_bytes(void) {
    struct ps_pages_stats stats;
    ps_pages_stats(&stats);
    return stats.used_bytes;
}

struct message {
    struct ps_ring_frame *frame;
    char *text;
};

static void *write_message(void *argument) {
    struct message *message = argument;
    struct ps_ring *ring = ps_r_ring();
    message->frame = ps_r_begin();
    message->text = ps_r_zalloc(100000);
    memset(message->text, 'x', 99999);
    message->text = ps_r_realloc(message->text, 100000, 200000);
    CHECK(ps_r_alloc(100) != NULL);
    ps_r_seal();
    CHECK_PTR_EQ(ps_r_ring(), ring);
    struct ps_ring_frame *dropped = ps_r_begin();
    CHECK(ps_r_alloc_aligned(10, 1) != NULL);
    ps_r_seal();
    ps_r_release(dropped);
    CHECK(ps_r_begin() != NULL);
    return NULL;
}

TEST(frames_outlive_their_thread) {
    size_t before = used_bytes();
    for (int round = 0; round < 20; round++) {
        struct message message;
        pthread_t thread;
        REQUIRE(pthread_create(&thread, NULL, write_message, &message) == 0);
        pthread_join(thread, NULL);
        CHECK_EQ(strlen(message.text), 99999);
        message.text[150000] = 1;
        ps_r_release(message.frame);
    }
    CHECK_EQ(used_bytes(), before);
}

static pthread_key_t late_key;

static void use_ring_late(void *rounds) {
    struct ps_ring_frame *frame = ps_r_begin();
    memset(ps_r_alloc(100), 1, 100);
    ps_r_seal();
    ps_r_release(frame);
    if ((uintptr_t)rounds > 1) {
        pthread_setspecific(late_key, (void *)((uintptr_t)rounds - 1));
    }
}

static void *exit_late(void *unused) {
    CHECK(ps_r_begin() != NULL);
    pthread_setspecific(late_key, (void *)2);
    return unused;
}

TEST(destructors_of_other_keys_may_use_the_ring) {
    size_t before = used_bytes();
    REQUIRE(pthread_key_create(&late_key, use_ring_late) == 0);
    pthread_t thread;
    REQUIRE(pthread_create(&thread, NULL, exit_late, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK_EQ(used_bytes(), before);
}

TEST(the_ring_of_the_thread_works_in_a_fork_child) {
    struct ps_ring_frame *frame = ps_r_begin();
    char *text = ps_r_alloc(100);
    memset(text, 1, 100);
    fflush(NULL);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        ps_r_seal();
        CHECK_EQ(text[99], 1);
        ps_r_release(frame);
        frame = ps_r_begin();
        CHECK(ps_r_alloc(100000) != NULL);
        ps_r_seal();
        ps_r_release(frame);
    }
    unit_join_child(pid);
    ps_r_seal();
    ps_r_release(frame);
}

DEBUG_ALL(everything_holds_in_checked_mode, "check")

DEBUG_ALL(everything_holds_in_malloc_mode, "malloc")

UNIT_MAIN
