/* SPDX-License-Identifier: MIT */
/*
 * See extents.h: returns free granules of extents to the system. While their memory is dropped they
 * count as used, so that the purge has no lock then; `detached` names them for the child of a fork.
 */
#include "pools/engine/page/extents.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/turn.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/retention.h"

#define EPOCHS_OF_DELAY 2
#define EPOCH_MS_LEAST 25
#define EXTENTS_PER_US 16
#define GRANULE_US PS_PURGE_GRANULE_US

static uint32_t x_holder; /* lock id of the thread that purges; 0: none */

/* Variables of that thread. */
static uint64_t epoch_ends_ms;
static struct ps_extents *next_extents; /* of the pass; NULL: it is over */
static struct ps_extent *next_extent;   /* there; NULL: the first */
static bool is_for_all;                 /* the pass is of granules of any age */
static struct {
    struct ps_extent *extent; /* NULL: none is being purged */
    uint64_t bits;
} detached;

static void begin_pass(bool is_asked) {
    next_extents = ps_load_acquire(&ps_extents_x_made); /* acquire: pairs with ps_extents_make */
    next_extent = NULL;
    is_for_all = is_asked || ps_retention_delay_ms() == 0;
}

/* The granules of an extent that are due, which become used; under its lock. */
static uint64_t detach(struct ps_extents *extents, struct ps_extent *extent) {
    ps_lock_acquire(&extents->lock);
    uint64_t bits = extents->lock.depth == 0 ? extent->free & extent->dirty : 0;
    uint64_t due = is_for_all ? bits : bits & extent->aged;
    extent->aged = bits & ~due;
    detached.bits = due;
    ps_fence_program_order(); /* for the child of a fork, both */
    detached.extent = due != 0 ? extent : NULL;
    uint64_t before = extent->free;
    extent->free &= ~due;
    ps_extents_count_free(extents, extent, before, extent->dirty);
    ps_lock_release(&extents->lock);
    return due;
}

static void attach(struct ps_extents *extents, struct ps_extent *extent, uint64_t bits,
                   uint64_t purged) {
    ps_lock_acquire(&extents->lock);
    uint64_t before_free = extent->free;
    uint64_t before_dirty = extent->dirty;
    extent->dirty &= ~purged;
    extent->free |= bits;
    ps_extents_count_free(extents, extent, before_free, before_dirty);
    detached.extent = NULL;
    ps_lock_release(&extents->lock);
}

/* Drops the memory of granules. Returns those that the system has not refused. */
static uint64_t drop(const struct ps_extent *extent, uint64_t bits) {
    uint64_t purged = 0;
    for (uint64_t left = bits; left != 0;) {
        size_t first = (size_t)__builtin_ctzll(left);
        uint64_t used = ~(left >> first);
        size_t count = used != 0 ? (size_t)__builtin_ctzll(used) : 64;
        uint64_t mask = (count == 64 ? ~(uint64_t)0 : ((uint64_t)1 << count) - 1) << first;
        size_t bytes = count << PS_GRANULE_SHIFT;
        if (ps_os_purge(extent->base + (first << PS_GRANULE_SHIFT), bytes)) {
            ps_purge_count(bytes);
            purged |= mask;
        }
        left &= ~mask;
    }
    return purged;
}

/* The next extent of the pass; NULL: it is over. */
static struct ps_extent *advance(void) {
    while (next_extents != NULL) {
        bool is_dirty = ps_load_relaxed(&next_extents->x_dirty_free) != 0; /* relaxed: a hint */
        /* relaxed, both: a newer one waits for the next pass; none ends: ps_extents_purge_stop. */
        struct ps_extent *at = next_extent != NULL ? ps_load_relaxed(&next_extent->next)
                               : is_dirty          ? ps_load_relaxed(&next_extents->first)
                                                   : NULL;
        next_extent = at;
        if (at != NULL) {
            return at;
        }
        next_extents = next_extents->next_made;
    }
    return NULL;
}

static void step(uint64_t *bytes) {
    int64_t us = 0;
    for (size_t seen = 1; us < PS_PURGE_STEP_US; seen++) {
        struct ps_extent *extent = advance();
        if (extent == NULL) {
            break;
        }
        struct ps_extents *extents = extent->owner;
        uint64_t due = detach(extents, extent);
        us += seen % EXTENTS_PER_US == 0;
        if (due != 0) {
            uint64_t purged = drop(extent, due);
            attach(extents, extent, due, purged);
            *bytes += (uint64_t)__builtin_popcountll(purged) << PS_GRANULE_SHIFT;
            us += (int64_t)__builtin_popcountll(due) * GRANULE_US;
        }
    }
}

bool ps_extents_purge_tick(uint64_t now_ms, bool is_asked, uint64_t *bytes) {
    if (!ps_extents_have_dirty() || !ps_turn_begin(&x_holder)) {
        return false;
    }
    bool is_over = next_extents == NULL;
    if (now_ms >= epoch_ends_ms && (is_over || !is_for_all)) {
        uint64_t epoch_ms = ps_retention_delay_ms() / EPOCHS_OF_DELAY;
        epoch_ends_ms = now_ms + ps_max(epoch_ms, EPOCH_MS_LEAST);
        begin_pass(is_asked);
    } else if (is_asked && !(is_for_all && !is_over)) {
        begin_pass(true);
    }
    step(bytes);
    bool has_more = next_extents != NULL;
    ps_turn_end(&x_holder);
    return has_more;
}

void ps_extents_purge_stop(const struct ps_extents *ending) {
    while (!ps_turn_begin(&x_holder)) { /* ends: a step is bounded */
        uint32_t never = 0;
        ps_os_wait_ms(&never, 0, 1);
    }
    if (next_extents == ending) { /* its record ends */
        next_extent = NULL;
        next_extents = ending != NULL ? ending->next_made : NULL;
    }
}

void ps_extents_purge_resume(void) { ps_turn_end(&x_holder); }

void ps_extents_purge_fork_child(void) {
    if (ps_turn_is_own(&x_holder)) {
        return;
    }
    if (detached.extent != NULL) {
        attach(detached.extent->owner, detached.extent, detached.bits, 0);
    }
    next_extents = NULL;
    next_extent = NULL;
    ps_turn_end(&x_holder);
}
