/* SPDX-License-Identifier: MIT */
/*
 * A thread that does not run, with a heap that others take, and the calling thread, which is active
 * beside it. Included by the tests of that, without and with hardening.
 */
#ifndef PS_TESTS_UNIT_SLEEPER_H
#define PS_TESTS_UNIT_SLEEPER_H

#include "tests/unit/engine.h"
#include "tests/unit/worker.h"

#define BLOCKS 2000
#define BLOCK_BYTES 240
#define IDLE_MS 200 /* enough to be asked */
#define STEP_MS 10  /* enough to answer */

static struct worker sleeper;
static struct live_block blocks[BLOCKS]; /* the sleeper's */
static struct live_block others[BLOCKS];

static void allocate_all(void *which) {
    struct live_block *mine = which;
    live_start_all(mine, BLOCKS, BLOCK_BYTES);
}

static void free_all(void *which) {
    struct live_block *mine = which;
    live_end_all(mine, BLOCKS);
}

/* In order, so that a free streak is open at the end. */
static void free_first_half(void *which) {
    struct live_block *mine = which;
    for (size_t i = 0; i < BLOCKS / 2; i++) {
        live_end(&mine[i]);
    }
}

static void free_next(void *which) {
    struct live_block *mine = which;
    live_end(&mine[BLOCKS / 2]);
}

#define LATE 20 /* frees of a streak that a thread may continue by its words alone */

/* What a thread does whose heap was taken while it was stopped between the two instructions of such
 * a free: it makes that one, and those that follow. */
__attribute__((unused)) static void store_late(void *which) {
    struct live_block *mine = which;
    char *next = (char *)mine[BLOCKS / 2].address;
    for (size_t i = BLOCKS / 2; i < BLOCKS / 2 + LATE && (char *)mine[i].address == next; i++) {
        CHECK(live_is_intact(&mine[i], mine[i].bytes));
        mine[i].address = NULL;
        next += ps_thread.streak_step;
    }
    ps_thread.streak_next = next;
}

/* Slow calls of this thread while time passes, in steps that let every question be answered. */
static void be_active(uint64_t ms) {
    for (uint64_t passed = 0; passed < ms; passed += STEP_MS) {
        fake_os_advance_ms(STEP_MS);
        for (int i = 0; i < 8; i++) {
            ps_heap_free(ps_heap_alloc(100 * KIB));
        }
    }
}

static void start_sleeper(void) {
    worker_start(&sleeper);
    worker_do(&sleeper, allocate_all, blocks);
}

static void start_sleeper_in_streak(void) {
    start_sleeper();
    worker_do(&sleeper, free_first_half, blocks);
}

static void wake_and_stop(void) {
    worker_do(&sleeper, free_all, blocks);
    worker_stop(&sleeper);
}

static void note_heap(void *heap) { *(struct ps_heap **)heap = ps_thread.own; }

static struct ps_heap *heap_of_sleeper(void) {
    struct ps_heap *heap;
    worker_do(&sleeper, note_heap, &heap);
    return heap;
}

#endif
