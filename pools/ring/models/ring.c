/* SPDX-License-Identifier: MIT */
/*
 * A ring: frames are released by other threads while the owner opens new ones, or ends the ring.
 * Every chunk is returned once, when the last of its frames is released and the ring has ended; no
 * block's memory is used again before the thread that released it is done. Sources, bounds and
 * faults to find: ring.model.
 */
#include <poolshim/ring.h>

#include <chunks.h>

#include <explore.h>

#define LARGE_BYTES 500 /* more than is left in a chunk after a frame */

static struct ps_ring *ring;
static struct ps_ring_frame *frames[2];
static void *blocks[2];

static void frame(unsigned i, size_t bytes) {
    frames[i] = ps_ring_begin(ring);
    blocks[i] = ps_ring_alloc(ring, bytes);
    ps_ring_seal(ring);
    EXPLORE_ASSERT(frames[i] != NULL && blocks[i] != NULL);
}

/* Two frames, the second in a chunk of its own. */
static void two_frames(void) {
    ring = ps_ring_create(NULL);
    frame(0, 16);
    frame(1, LARGE_BYTES);
}

static void two_small_frames(void) {
    ring = ps_ring_create(NULL);
    frame(0, 16);
    frame(1, 16);
}

static void release(unsigned i) {
    explore_use(blocks[i], 16);
    ps_ring_release(frames[i]);
}

static void release_0(void) { release(0); }

static void release_1(void) { release(1); }

static void end(void) { ps_ring_destroy(ring); }

/* The owner needs another chunk, or a returned one, and uses it at once. */
static void go_on(void) {
    struct ps_ring_frame *next = ps_ring_begin(ring);
    explore_use(ps_ring_alloc(ring, LARGE_BYTES), LARGE_BYTES);
    ps_ring_seal(ring);
    ps_ring_release(next);
}

static void go_on_small(void) {
    struct ps_ring_frame *next = ps_ring_begin(ring);
    explore_use(ps_ring_alloc(ring, 16), 16);
    ps_ring_seal(ring);
    ps_ring_release(next);
}

static void go_on_and_end(void) {
    go_on();
    end();
}

static void all_given(void) { EXPLORE_ASSERT(chunks_out() == 0); }

static void all_given_at_end(void) {
    explore_outcome(chunks_out());
    end();
    all_given();
}

const struct explore_scenario explore_scenarios[] = {
    {"ends", two_frames, {end, release_0, release_1}, all_given, false},
    {"ends_one_chunk", two_small_frames, {end, release_0, release_1}, all_given, false},
    {"goes_on", two_frames, {go_on, release_0, release_1}, all_given_at_end, false},
    {"rewinds", two_small_frames, {go_on_small, release_0, release_1}, all_given_at_end, false},
    {"goes_on_and_ends", two_frames, {go_on_and_end, release_0, release_1}, all_given, true},
    {NULL, NULL, {NULL}, NULL, false},
};
