/* SPDX-License-Identifier: MIT */
/*
 * See hard_large.h.
 */
#include "pools/engine/harden/hard_large.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/transit.h"
#include "pools/engine/heap/block.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/retention.h"

#define HELD_LIMIT 64
#define HELD_LIMIT_ZEROES 16 /* at level 1 */

static size_t shut_most_bytes; /* inaccessible part of a run, from its start; constant */

PS_UNDO_LOG(held_undo, 4);
static struct ps_lock held_lock = PS_LOCK_INIT_UNDO(PS_RANK_HARD, &held_undo);
static PS_SPARSE struct ps_run *held[HELD_LIMIT]; /* ring */
static size_t first;                              /* of the ring: the oldest */
static size_t count;
static size_t held_bytes;

void ps_hard_large_start(size_t bytes) { shut_most_bytes = bytes; }

static size_t bytes_of(const struct ps_run *run) {
    return (size_t)run->granules << PS_GRANULE_SHIFT;
}

/* Notes the words that a section changes. Entries of the ring need no note: the removal of a run
 * leaves its entry unchanged. */
static void note_ring(void) {
    PS_UNDO_NOTE(&held_undo, first);
    PS_UNDO_NOTE(&held_undo, count);
    PS_UNDO_NOTE(&held_undo, held_bytes);
}

static struct ps_run *take_oldest_locked(void) {
    struct ps_run *run = held[first];
    first = (first + 1) % HELD_LIMIT;
    count--;
    held_bytes -= bytes_of(run);
    return run;
}

static bool is_over_locked(size_t bytes) {
    return count == (shut_most_bytes != 0 ? HELD_LIMIT : HELD_LIMIT_ZEROES) ||
           (count != 0 && held_bytes + bytes > PS_RETENTION_QUARANTINE_BYTES);
}

/* Returns a list, linked by next, to the page cache, or to partitions, which accept inaccessible
 * runs. */
static void release_list(struct ps_run *list) {
    while (list != NULL) {
        struct ps_run *run = list;
        list = run->next;
        run->next = NULL;
        ps_large_give_run(run);
    }
}

void ps_hard_large_hold(struct ps_run *run) {
    if (shut_most_bytes != 0) {
        size_t bytes = ps_min(bytes_of(run), shut_most_bytes);
        (void)ps_os_protect(run->base, bytes, false); /* refused: still accessible */
    }
    struct ps_run *list = NULL;
    uint32_t phase = ps_transit_begin();
    ps_lock_acquire(&held_lock);
    note_ring();
    while (is_over_locked(bytes_of(run))) { /* ends: count decreases */
        struct ps_run *oldest = take_oldest_locked();
        oldest->next = list;
        list = oldest;
    }
    PS_UNDO_NOTE(&held_undo, held[(first + count) % HELD_LIMIT]);
    held[(first + count++) % HELD_LIMIT] = run;
    held_bytes += bytes_of(run);
    ps_lock_release(&held_lock);
    release_list(list);
    ps_transit_end(phase);
}

void ps_hard_large_flush(void) {
    struct ps_run *list = NULL;
    uint32_t phase = ps_transit_begin();
    ps_lock_acquire(&held_lock);
    note_ring();
    while (count != 0) {
        struct ps_run *oldest = take_oldest_locked();
        oldest->next = list;
        list = oldest;
    }
    ps_lock_release(&held_lock);
    release_list(list);
    ps_transit_end(phase);
}

void ps_hard_large_sweep(size_t bytes) {
    if (shut_most_bytes != 0) {
        return;
    }
    ps_lock_acquire(&held_lock);
    for (size_t i = 0; i < count; i++) {
        const struct ps_run *run = held[(first + i) % HELD_LIMIT];
        size_t usable = ps_large_usable(PS_CONTAINER_OF(run, struct ps_slot, run), run->base);
        size_t looked_at = ps_min(usable, ps_round_down(bytes, PS_WIPE_LINE_BYTES));
        if (PS_UNLIKELY(looked_at != 0 && !ps_is_wiped(run->base, looked_at))) {
            ps_fatal_block(PS_MISUSE_LATE_WRITE, run->base, usable);
        }
        bytes -= looked_at;
    }
    ps_lock_release(&held_lock);
}

void ps_hard_large_fork_child(void) { ps_lock_fork_child(&held_lock); }
