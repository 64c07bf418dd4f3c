/* SPDX-License-Identifier: MIT */
/*
 * The explorer itself: small programs whose outcomes C11 settles; tests/models/test_models.py knows
 * them.
 */
#include "pools/engine/base/atomic.h"

#include <explore.h>

static uint32_t x, y, plain;
static uint32_t seen[4];

static void start(void) {}

static void x1_relaxed(void) { ps_store_relaxed(&x, 1u); }
static void y1_relaxed(void) { ps_store_relaxed(&y, 1u); }
static void x1_release(void) { ps_store_release(&x, 1u); }
static void x1_seq_cst(void) { ps_store_seq_cst(&x, 1u); }
static void y1_release(void) { ps_store_release(&y, 1u); }
static void y1_seq_cst(void) { ps_store_seq_cst(&y, 1u); }

static void x1_see_y_acquire(void) {
    ps_store_release(&x, 1u);
    seen[0] = ps_load_acquire(&y);
}
static void y1_see_x_acquire(void) {
    ps_store_release(&y, 1u);
    seen[1] = ps_load_acquire(&x);
}
static void x1_see_y_seq_cst(void) {
    ps_store_seq_cst(&x, 1u);
    seen[0] = ps_load_seq_cst(&y);
}
static void y1_see_x_seq_cst(void) {
    ps_store_seq_cst(&y, 1u);
    seen[1] = ps_load_seq_cst(&x);
}
static void x1_y1_relaxed(void) {
    ps_store_relaxed(&x, 1u);
    ps_store_relaxed(&y, 1u);
}
static void x1_y1_release(void) {
    ps_store_relaxed(&x, 1u);
    ps_store_release(&y, 1u);
}
static void x1_fence_y1(void) {
    ps_store_relaxed(&x, 1u);
    ps_fence_stores();
    ps_store_relaxed(&y, 1u);
}
static void x1_see_y_relaxed(void) {
    ps_store_relaxed(&x, 1u);
    seen[0] = ps_load_relaxed(&y);
}
static void y1_see_x_relaxed(void) {
    ps_store_relaxed(&y, 1u);
    seen[1] = ps_load_relaxed(&x);
}
static void y1_later_see_x_relaxed(void) {
    ps_store_relaxed(&y, 1u);
    explore_time_passes();
    seen[1] = ps_load_relaxed(&x);
}
static void y1_barrier_see_x_relaxed(void) {
    ps_store_relaxed(&y, 1u);
    explore_barrier_everywhere();
    seen[1] = ps_load_relaxed(&x);
}
static void barrier_y1_see_x_relaxed(void) {
    explore_barrier_everywhere();
    y1_see_x_relaxed();
}
static void see_y_x(void) {
    seen[0] = ps_load_acquire(&y);
    seen[1] = ps_load_relaxed(&x);
}
static void see_y_fence_x(void) {
    seen[0] = ps_load_relaxed(&y);
    explore_fence_loads();
    seen[1] = ps_load_relaxed(&x);
}
static void see_y_x_relaxed(void) {
    seen[0] = ps_load_relaxed(&y);
    seen[1] = ps_load_relaxed(&x);
}
static void see_x_y_acquire(void) {
    seen[0] = ps_load_acquire(&x);
    seen[1] = ps_load_acquire(&y);
}
static void see_y_x_acquire(void) {
    seen[2] = ps_load_acquire(&y);
    seen[3] = ps_load_acquire(&x);
}
static void see_x_y_seq_cst(void) {
    seen[0] = ps_load_seq_cst(&x);
    seen[1] = ps_load_seq_cst(&y);
}
static void see_y_x_seq_cst(void) {
    seen[2] = ps_load_seq_cst(&y);
    seen[3] = ps_load_seq_cst(&x);
}
static void see_x_barrier_y(void) {
    seen[0] = ps_load_relaxed(&x);
    explore_barrier_everywhere();
    seen[1] = ps_load_relaxed(&y);
}
static void see_y_x_last(void) {
    seen[2] = ps_load_relaxed(&y);
    seen[3] = ps_load_relaxed(&x);
}
static void see_x_x(void) {
    seen[0] = ps_load_relaxed(&x);
    seen[1] = ps_load_relaxed(&x);
}
static void see_y_pass_x(void) { /* y: from the thread that sees x to the one that sees y */
    seen[0] = ps_load_relaxed(&x);
    ps_store_release(&y, 1u);
}
static void write_flag(void) {
    plain = 1;
    ps_store_release(&x, 1u);
}
static void add_relaxed(void) { ps_add_relaxed(&x, 1u); }
static void read_if_2(void) {
    if (ps_load_acquire(&x) == 2) {
        seen[0] = plain;
    }
}
static void add_by_swap(void) {
    uint32_t seen_x = ps_load_relaxed(&x);
    while (!ps_cas_weak_release(&x, &seen_x, seen_x + 1)) {
    }
}

static void write_plain(void) { plain = 1; }
static void read_plain(void) { seen[0] = plain; }
static void look_at_flag(void) {
    if (ps_load_relaxed(&x) == 1) {
        seen[0] = plain;
    }
}
static void later_look_at_flag(void) {
    explore_time_passes();
    look_at_flag();
}
static void barrier_look_at_flag(void) {
    explore_barrier_everywhere();
    look_at_flag();
}
static void write_fence_flag(void) {
    plain = 1;
    ps_fence_stores();
    ps_store_relaxed(&x, 1u);
}
static void fence_write_flag(void) {
    ps_fence_stores();
    plain = 1;
    ps_store_relaxed(&x, 1u);
}
static void fence_behind_flag(void) {
    if (ps_load_relaxed(&x) == 1) {
        explore_fence_loads();
        seen[0] = plain;
    }
}
static void wait_for_x(void) {
    if (ps_load_acquire(&x) == 0) {
        explore_sleep(&x, 0);
    }
}

static void two(void) { explore_outcome(seen[0] << 1 | seen[1]); }
static void four(void) { explore_outcome(seen[0] << 3 | seen[1] << 2 | seen[2] << 1 | seen[3]); }
static void value_of_x(void) { explore_outcome(x); }

const struct explore_scenario explore_scenarios[] = {
    {"store_buffers", start, {x1_see_y_acquire, y1_see_x_acquire}, two, false},
    {"store_buffers_seq_cst", start, {x1_see_y_seq_cst, y1_see_x_seq_cst}, two, false},
    {"store_buffers_in_time", start, {x1_see_y_relaxed, y1_later_see_x_relaxed}, two, false},
    {"store_buffers_barrier", start, {x1_see_y_relaxed, y1_barrier_see_x_relaxed}, two, false},
    {"store_buffers_barrier_first",
     start,
     {x1_see_y_relaxed, barrier_y1_see_x_relaxed},
     two,
     false},
    {"two_readers_barrier",
     start,
     {x1_relaxed, y1_relaxed, see_x_barrier_y, see_y_x_last},
     four,
     false},
    {"message_relaxed", start, {x1_y1_relaxed, see_y_x}, two, false},
    {"message", start, {x1_y1_release, see_y_x}, two, false},
    {"fences", start, {x1_fence_y1, see_y_fence_x}, two, false},
    {"fence_of_stores", start, {x1_fence_y1, see_y_x_relaxed}, two, false},
    {"fence_of_loads", start, {x1_y1_relaxed, see_y_fence_x}, two, false},
    {"fences_of_plain", start, {write_fence_flag, fence_behind_flag}, two, false},
    {"coherence", start, {x1_relaxed, see_x_x}, two, false},
    {"two_readers", start, {x1_release, y1_release, see_x_y_acquire, see_y_x_acquire}, four, false},
    {"two_readers_seq_cst",
     start,
     {x1_seq_cst, y1_seq_cst, see_x_y_seq_cst, see_y_x_seq_cst},
     four,
     false},
    {"release_sequence", start, {write_flag, add_relaxed, read_if_2}, two, false},
    {"load_first", start, {see_y_pass_x, x1_relaxed}, two, false},
    {"counter", start, {add_by_swap, add_by_swap, add_by_swap}, value_of_x, false},
    /* wrong ones, to be asked for by name */
    {"race", start, {write_plain, read_plain}, two, true},
    {"race_behind_flag", start, {write_flag, look_at_flag}, two, true},
    {"race_behind_fence", start, {fence_write_flag, fence_behind_flag}, two, true},
    {"race_behind_barrier", start, {write_flag, barrier_look_at_flag}, two, true},
    {"race_behind_time", start, {write_flag, later_look_at_flag}, two, true},
    {"sleeps_for_ever", start, {x1_release, wait_for_x}, two, true},
    {NULL, NULL, {NULL}, NULL, false},
};
