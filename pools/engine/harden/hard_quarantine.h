/* SPDX-License-Identifier: MIT */
/*
 * The quarantine of small blocks (levels 2 and 3 of hard.h). The places of a class are in two
 * halves. A freed block takes the place of the oldest in the first half, so that it remains for as
 * many frees at least. That block takes a random place in the second half, and the block that was
 * there leaves. It goes to the thread's front
 * (front/front.h), whose blocks malloc grants next, or returns to the store when the front is full.
 * A front that is empty is filled from the store, in random order.
 *
 * The places are in shards. A thread uses that of its concurrency id, so that few processors share
 * one, and a process has as many as threads ever ran at once; or, without such ids, one of a few. A
 * block enters and leaves by one exchange of a word: a signal handler, another thread and a reader
 * outside of the process find each place right, and no lock is taken.
 *
 * The child of a fork of several threads returns the quarantined blocks to the bitmaps of their
 * slabs: one may already be elsewhere on a page that was copied later. See front/store.h.
 *
 * Callers: hard.c, modes.c, census.c. Any thread. No locks of its own.
 */
#ifndef PS_HARDEN_HARD_QUARANTINE_H
#define PS_HARDEN_HARD_QUARANTINE_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/config.h"
#include "pools/engine/heap/front_thread.h"
#include "pools/engine/os/lock.h"

#include <stddef.h>
#include <stdint.h>

#define PS_HARD_SHARDS 64

struct ps_hard_shard {
    uint64_t x_random;
    uint16_t x_oldest[PS_CLASS_LIMIT]; /* place in the first half of a class */
    void *x_held[];                    /* places of the classes, one after the other; NULL: free */
};

/* Constant after the start, except for the shards. Read from outside the process, too. */
struct ps_hard_table {
    struct ps_hard_places { /* of a class */
        uint16_t first;
        uint16_t count;
    } places[PS_CLASS_LIMIT];
    struct ps_hard_shard *x_shards[PS_HARD_SHARDS]; /* NULL: not made */
};
extern PS_HIDDEN struct ps_hard_table ps_hard_table;

/* Called once, before the first block. */
void ps_hard_quarantine_start(void);

/* Returns all quarantined blocks to the store. */
void ps_hard_flush(void);

/* Number of quarantined blocks of a class. A snapshot. */
size_t ps_hard_count(uint32_t class_index);

/* The hook fork_blocks of these modes. */
void ps_hard_fork_blocks(void);

/* The index of the thread's shard: any would do. */
PS_INLINE size_t ps_hard_shard_index(void) {
    if (ps_front_thread.own != NULL) { /* of the first thread, or of none yet or any more */
        return 0;
    }
    if (!ps_front_uses_sequences()) {
        return ps_lock_self() % PS_HARD_SHARDS;
    }
    /* relaxed: the kernel writes it, for this thread. */
    return ps_load_relaxed((const uint32_t *)(ps_thread_pointer() + (uintptr_t)ps_front_table.id)) %
           PS_HARD_SHARDS;
}

/* The thread's shard; NULL: it is not made. */
PS_INLINE struct ps_hard_shard *ps_hard_shard_here(void) {
    /* acquire: pairs with ps_hard_make_shard_here. */
    return ps_load_acquire(&ps_hard_table.x_shards[ps_hard_shard_index()]);
}

/* The same, and makes it; NULL when memory is exhausted. */
struct ps_hard_shard *ps_hard_make_shard_here(void);

/* Knuth's generator: one multiplication, whose upper half is random enough here. */
PS_INLINE size_t ps_hard_random_below(struct ps_hard_shard *shard, size_t limit) {
    /* relaxed, both: two threads at once draw the same. */
    uint64_t random = ps_load_relaxed(&shard->x_random) * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
    ps_store_relaxed(&shard->x_random, random);
    return (size_t)(((random >> 32) * limit) >> 32);
}

/* Quarantines a freed block. Returns the block that leaves for it, or NULL. */
PS_INLINE void *ps_hard_swap(struct ps_hard_shard *shard, uint32_t class_index, void *block) {
    const struct ps_hard_places *places = &ps_hard_table.places[class_index];
    size_t half = places->count / 2u;
    /* relaxed, both: of two threads at once one takes a younger block. */
    size_t at = ps_load_relaxed(&shard->x_oldest[class_index]);
    ps_store_relaxed(&shard->x_oldest[class_index], (uint16_t)(at + 1 < half ? at + 1 : 0));
    /* acq_rel, both: hands the zeroes of a block on to the thread that gets it. */
    void *oldest = ps_exchange_acq_rel(&shard->x_held[places->first + at], block);
    if (oldest == NULL) {
        return NULL;
    }
    at = places->first + half + ps_hard_random_below(shard, places->count - half);
    return ps_exchange_acq_rel(&shard->x_held[at], oldest);
}

#endif
