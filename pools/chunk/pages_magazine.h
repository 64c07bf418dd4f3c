/* SPDX-License-Identifier: MIT */
/*
 * A thread's magazine: freed runs of the common lengths, a power of two from 1 page to 1 MiB, each
 * aligned to its length, but never more than a slice is. Taking from it and giving to it needs
 * neither lock nor atomic; pages.c does both inline, and calls the functions below for the rest.
 * (Magazines over a depot after Bonwick and Adams 2001.)
 *
 * Only its thread writes a magazine. Others read its bytes for statistics, and the child of a fork
 * empties those of threads it does not have, which is why an entry is written before the count
 * that covers it. Lock: the list of all magazines (PS_RANK_MAGAZINE).
 */
#ifndef PS_CHUNK_PAGES_MAGAZINE_H
#define PS_CHUNK_PAGES_MAGAZINE_H

#include "pools/base/bits.h"
#include "pools/chunk/pages_depot.h"

#define PS_MAGAZINE_LENGTHS 9                   /* 1, 2, 4 ... 256 pages */
#define PS_MAGAZINE_BYTES_MAX ((size_t)1 << 20) /* longest run */
#define PS_MAGAZINE_ROOM 64                     /* runs of each length, at most */

/* x_bytes == sum of x_counts[i] x (PS_PAGE_BYTES << i) */
struct ps_magazine {
    size_t x_bytes; /* PTRDIFF_MAX: no magazine, so nothing fits in */
    uint32_t x_counts[PS_MAGAZINE_LENGTHS];
    uint32_t tick_countdown;
    struct ps_magazine *next;              /* of all; list lock */
    struct ps_magazine *next_spare;        /* of those without a thread; list lock */
    bool is_spare;                         /* list lock */
    uintptr_t entries[][PS_MAGAZINE_ROOM]; /* places, see pages_depot.h; newest last */
};

/* Never NULL: a thread without a magazine has one that is empty and full at once. So have all when
 * memory is watched (poison.h), since only the slow side makes marks. */
extern __thread PS_HIDDEN struct ps_magazine *ps_magazine
    __attribute__((tls_model("initial-exec")));

/* Bytes that a magazine may hold. */
extern PS_HIDDEN size_t ps_x_magazine_limit;

/* Whether runs of these bytes go through magazines at all. */
PS_INLINE bool ps_magazine_has_length(size_t bytes) {
    return (bytes & (bytes - 1)) == 0 &&
           bytes - PS_PAGE_BYTES <= PS_MAGAZINE_BYTES_MAX - PS_PAGE_BYTES;
}

PS_INLINE size_t ps_magazine_index(size_t bytes) { return (unsigned)__builtin_ctzll(bytes) - 12u; }

/* Alignment that runs of one of these lengths have. */
PS_INLINE size_t ps_magazine_align(size_t bytes) { return ps_min(bytes, PS_SLICE_BYTES); }

/* Takes the newest run of a length. False: there is none. */
PS_INLINE bool ps_magazine_pop(struct ps_magazine *magazine, size_t bytes, uintptr_t *place) {
    size_t index = ps_magazine_index(bytes);
    size_t count = magazine->x_counts[index];
    if (PS_UNLIKELY(count == 0)) {
        return false;
    }
    *place = magazine->entries[index][count - 1];
    /* relaxed: read by statistics; and by a fork's child, which sees this thread's stores in
     * order. */
    ps_store_relaxed(&magazine->x_counts[index], (uint32_t)(count - 1));
    ps_store_relaxed(&magazine->x_bytes, magazine->x_bytes - bytes); /* relaxed: as above */
    return true;
}

/* Puts a run on top. False when it does not fit, or is there already. */
PS_INLINE bool ps_magazine_push(struct ps_magazine *magazine, uintptr_t place, size_t bytes) {
    size_t index = ps_magazine_index(bytes);
    size_t count = magazine->x_counts[index];
    size_t limit = ps_load_relaxed(&ps_x_magazine_limit); /* relaxed: a moment late is all right */
    const uintptr_t *entries = magazine->entries[index];
    /* With count 0, the word before the entries is read: another length's, or the head's. */
    if (PS_UNLIKELY(magazine->x_bytes + bytes > limit || count == PS_MAGAZINE_ROOM ||
                    entries[(ptrdiff_t)count - 1] == place)) {
        return false;
    }
    magazine->entries[index][count] = place;
    /* release: the entry is there before the count covers it, for a fork's child. */
    ps_store_release(&magazine->x_counts[index], (uint32_t)(count + 1));
    ps_store_relaxed(&magazine->x_bytes, magazine->x_bytes + bytes); /* relaxed: statistics */
    return true;
}

/* A run of any length, as ps_pages_alloc, when the magazine does not have it. 0 and errno. */
uintptr_t ps_magazine_take_slow(size_t bytes, size_t align);

/* Takes pages back that did not fit into the magazine as it was. */
void ps_magazine_give_slow(char *pages, size_t bytes);

/* Empties the calling thread's magazine. */
void ps_magazine_flush(void);

/* Sum of what all magazines hold. */
size_t ps_magazine_all_bytes(void);

/* In the child of a fork, by its only thread: repairs the list's lock; then, all locks free,
 * empties the magazines of threads that the child does not have. */
void ps_magazine_fork_child(void);
void ps_magazine_fork_salvage(void);

#endif
