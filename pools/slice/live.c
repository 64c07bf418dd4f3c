/* SPDX-License-Identifier: MIT */
/*
 * The live slices of a checked run: a hash table of address and size, open addressing, at most
 * half full. Called by slice.c. One lock, the last in the order; the table grows under it, by a
 * mapping, since checked runs need not be quick. When there is no memory to grow, checking ends.
 */
#include "pools/common/debug.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"
#include "pools/slice/slice.h"

#define FIRST_CAPACITY ((size_t)4096)

struct entry {
    const void *slice; /* NULL: empty */
    size_t bytes;
};

PS_UNDO_LOG(undo, 1);
static struct ps_lock lock = PS_LOCK_INIT_UNDO(PS_RANK_SLICE_LIVE, &undo);
static struct entry *entries;
static size_t capacity; /* a power of two, or 0 */
static size_t count;
static uint64_t is_blind; /* a word: the undo log sets it, so that a child that was forked while
                           * another thread changed the table goes without */

static size_t home_of(const void *slice) {
    return ((uintptr_t)slice >> 4) * (size_t)PS_GOLDEN_64 >> 20 & (capacity - 1);
}

/* The place of the slice, or the empty place for it. Ends: half the places are empty. */
static size_t find(const void *slice) {
    size_t at = home_of(slice);
    while (entries[at].slice != NULL && entries[at].slice != slice) {
        at = (at + 1) & (capacity - 1);
    }
    return at;
}

static void grow(void) {
    struct entry *old = entries;
    size_t old_capacity = capacity;
    size_t bytes = ps_max(capacity * 2, FIRST_CAPACITY) * sizeof *entries;
    struct entry *wider = ps_os_reserve(bytes, ps_os_page_bytes());
    if (wider == NULL) {
        is_blind = 1;
        return;
    }
    entries = wider;
    capacity = bytes / sizeof *entries;
    for (size_t at = 0; at < old_capacity; at++) {
        if (old[at].slice != NULL) {
            entries[find(old[at].slice)] = old[at];
        }
    }
    size_t old_bytes = old_capacity * sizeof *old;
    if (old != NULL && !ps_os_release(old, old_bytes)) {
        (void)ps_os_purge(old, old_bytes); /* only the addresses are lost */
    }
}

void ps_slice_live_add(const void *slice, size_t bytes) {
    ps_lock_acquire(&lock);
    ps_undo_set(&undo, &is_blind, 1);
    if (!is_blind && count >= capacity / 2) {
        grow();
    }
    if (!is_blind) {
        entries[find(slice)] = (struct entry){slice, bytes};
        count++;
    }
    ps_lock_release(&lock);
}

/* Empties a place and moves up later entries that lookups would no longer reach. */
static void remove_at(size_t hole) {
    count--;
    for (size_t at = (hole + 1) & (capacity - 1); entries[at].slice != NULL;
         at = (at + 1) & (capacity - 1)) {
        size_t home = home_of(entries[at].slice);
        if (((at - home) & (capacity - 1)) >= ((at - hole) & (capacity - 1))) {
            entries[hole] = entries[at];
            hole = at;
        }
    }
    entries[hole].slice = NULL;
}

void ps_slice_live_remove(const void *slice, size_t bytes) {
    ps_lock_acquire(&lock);
    ps_undo_set(&undo, &is_blind, 1);
    const char *misuse = NULL;
    if (!is_blind) {
        size_t at = capacity != 0 ? find(slice) : 0;
        if (capacity == 0 || entries[at].slice == NULL) {
            misuse = "slice freed that is none, or was freed before,";
        } else if (entries[at].bytes != bytes) {
            misuse = "slice freed with another size than allocated,";
        } else {
            remove_at(at);
        }
    }
    ps_lock_release(&lock);
    if (misuse != NULL) {
        ps_debug_misuse(misuse, slice, SLICE_FAMILY);
    }
}

void ps_slice_live_fork_child(void) { ps_lock_fork_child(&lock); }
