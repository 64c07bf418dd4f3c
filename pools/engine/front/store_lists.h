/* SPDX-License-Identifier: MIT */
/*
 * The parts of the store (store.h) that its files share: the slabs of a class and node on lists, by
 * how many free blocks they have, and the life of a slab. All under the store's lock, except as
 * noted. Callers: store.c, store_purge.c, store_fork.c.
 */
#ifndef PS_FRONT_STORE_LISTS_H
#define PS_FRONT_STORE_LISTS_H

#include "pools/engine/front/slab.h"
#include "pools/engine/front/store.h"
#include "pools/engine/os/lock.h"

#define PS_STORE_PLACES 16

struct ps_store {
    struct ps_lock lock;
    struct ps_run *lists[PS_STORE_PLACES]; /* the fewest free blocks first */
    uint32_t nonempty;                     /* a bit for each list */
    uint32_t drained;                      /* slabs without used blocks */
    uint64_t x_free;                       /* blocks that are free in its slabs */
    uint64_t x_purged;                     /* pages that are purged there */
    bool is_rebuilt;                       /* in the child of a fork: store_fork.c */
};

/* That of a class and node; of a slab, which may be a partition's. NULL: there is none. Without a
 * lock. */
struct ps_store *ps_store_at(uint32_t node, uint32_t class_index);
struct ps_store *ps_store_of(const struct ps_slab *slab);

/* Only checked builds read the rank: in others no store is touched before its first slab. */
static inline void ps_store_set_rank(struct ps_store *store) {
    if (PS_CHECKED) {
        store->lock.rank = PS_RANK_STORE;
    }
}

/* Acquires the lock. False, without it: the store is NULL, or the child of a fork by a signal
 * handler has interrupted the holder, which is itself, and the lists may be half changed. */
bool ps_store_begin(struct ps_store *store);
void ps_store_end(struct ps_store *store);

static inline bool ps_slab_is_drained(const struct ps_slab *slab) {
    return slab->x_free_count == slab->capacity;
}

/* Notes that blocks below this index may be out, in the tag, too. */
static inline void ps_slab_raise_fresh(struct ps_slab *slab, size_t index) {
    if (index > slab->fresh) {
        slab->fresh = (uint16_t)index;
        ps_slab_set_tag(slab);
    }
}

/* The number of purged pages of a slab; adds to that of a store. */
uint64_t ps_slab_purged_count(const struct ps_slab *slab);
void ps_store_count_purged(struct ps_store *store, uint64_t change);

/* Adds to the number of slabs of a class. */
void ps_store_count_slabs(uint32_t class_index, uint64_t change);

/* Adds to the number of slabs without used blocks. */
void ps_store_count_drained(struct ps_store *store, uint32_t change);

/* Adds to the number of free blocks of a slab, and puts it on its list, or on none. */
void ps_store_add_free(struct ps_store *store, struct ps_slab *slab, size_t blocks);

/* Sets which pages of a slab are purged. */
void ps_store_set_purged(struct ps_store *store, struct ps_slab *slab, uint16_t pages);

/* Takes a slab off its list, and out of its class, for ps_store_destroy. */
void ps_store_leave(struct ps_store *store, struct ps_slab *slab);

/* The same for a drained one. False: it is the last of its class with
 * free blocks, and is_all is false. */
bool ps_store_retire(struct ps_store *store, struct ps_slab *slab, bool is_all);

/* Notes that blocks have returned. True: the slab has left its list, for ps_store_destroy. */
bool ps_store_gain(struct ps_store *store, struct ps_slab *slab, size_t blocks);

/* Returns the memory of a slab that has left its list. Without the lock. */
void ps_store_destroy(struct ps_slab *slab);

#endif
