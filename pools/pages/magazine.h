/* SPDX-License-Identifier: MIT */
/*
 * A thread's magazine: freed runs of 1 page to 1 MiB, each aligned to the power of two from its
 * length on, at most to a granule. Taking and returning runs needs neither lock nor atomic; pages.c
 * does both inline, and calls the functions below for the rest. (Magazines over a depot after
 * Bonwick and Adams 2001.)
 */
#ifndef PS_PAGES_MAGAZINE_H
#define PS_PAGES_MAGAZINE_H

#include "pools/engine/base/bits.h"
#include "pools/pages/depot.h"

#define PS_MAGAZINE_STACKS 32                   /* 16 of one length each, 16 of several */
#define PS_MAGAZINE_BYTES_MAX ((size_t)1 << 20) /* longest run */
#define PS_MAGAZINE_PAGES_MAX (PS_MAGAZINE_BYTES_MAX / PS_PAGE_BYTES)
#define PS_MAGAZINE_ROOM 64 /* maximum number of runs in a stack */

/* The stack of a length. */
struct ps_magazine_length {
    uint8_t stack;
    uint8_t align_shift; /* of such a run, in bytes */
};

/* By length in pages; [0] is not used. */
extern PS_HIDDEN const struct ps_magazine_length ps_magazine_lengths[PS_MAGAZINE_PAGES_MAX + 1];

/* x_bytes == sum of x_counts[i] x pages[i] x PS_PAGE_BYTES */
struct ps_magazine {
    size_t x_bytes; /* PTRDIFF_MAX: no magazine, so no run fits */
    uint32_t x_counts[PS_MAGAZINE_STACKS];
    uint16_t x_pages[PS_MAGAZINE_STACKS]; /* length of its runs; changes while it is empty */
    uint32_t tick_countdown;
    struct ps_magazine *next;              /* list of all; list lock */
    struct ps_magazine *next_spare;        /* list of magazines without a thread; list lock */
    bool is_spare;                         /* list lock */
    uintptr_t entries[][PS_MAGAZINE_ROOM]; /* places, see depot.h; newest last */
};

/* Never NULL: a thread without a magazine has one that is both empty and full. So have all threads
 * when memory is watched (poison.h), because only the slow path sets marks. */
extern __thread PS_HIDDEN struct ps_magazine *ps_magazine
    __attribute__((tls_model("initial-exec")));

/* Limit of bytes in a magazine. */
extern PS_HIDDEN size_t ps_x_magazine_limit;

/* True when runs of these bytes use magazines. */
PS_INLINE bool ps_magazine_has_length(size_t bytes) {
    return bytes % PS_PAGE_BYTES == 0 && bytes - 1 < PS_MAGAZINE_BYTES_MAX;
}

/* The stack for a length. */
PS_INLINE size_t ps_magazine_stack(size_t bytes) {
    return ps_magazine_lengths[bytes / PS_PAGE_BYTES].stack;
}

/* Alignment of the runs of a length. */
PS_INLINE size_t ps_magazine_align(size_t bytes) {
    return (size_t)1 << ps_magazine_lengths[bytes / PS_PAGE_BYTES].align_shift;
}

/* Takes the newest run of a length. False when there is none. */
PS_INLINE bool ps_magazine_pop(struct ps_magazine *magazine, size_t bytes, uintptr_t *place) {
    size_t stack = ps_magazine_stack(bytes);
    size_t count = magazine->x_counts[stack];
    if (PS_UNLIKELY(count == 0 || magazine->x_pages[stack] != bytes / PS_PAGE_BYTES)) {
        return false;
    }
    *place = magazine->entries[stack][count - 1];
    /* relaxed: read by statistics, and by a fork's child, which sees this thread's stores in
     * order. */
    ps_store_relaxed(&magazine->x_counts[stack], (uint32_t)(count - 1));
    ps_store_relaxed(&magazine->x_bytes, magazine->x_bytes - bytes); /* relaxed: as above */
    return true;
}

/* Adds a run. False when it does not fit, is the newest one already, or the stack has another
 * length. */
PS_INLINE bool ps_magazine_push(struct ps_magazine *magazine, uintptr_t place, size_t bytes) {
    size_t stack = ps_magazine_stack(bytes);
    size_t count = magazine->x_counts[stack];
    size_t limit = ps_load_relaxed(&ps_x_magazine_limit); /* relaxed: a delay is harmless */
    const uintptr_t *entries = magazine->entries[stack];
    /* With count 0 this reads the word before the entries: another length's, or the head's. */
    if (PS_UNLIKELY(magazine->x_bytes + bytes > limit || count == PS_MAGAZINE_ROOM ||
                    magazine->x_pages[stack] != bytes / PS_PAGE_BYTES ||
                    entries[(ptrdiff_t)count - 1] == place)) {
        return false;
    }
    magazine->entries[stack][count] = place;
    /* release: the entry, and the stack's length, are written before the count covers it, for a
     * fork's child. */
    ps_store_release(&magazine->x_counts[stack], (uint32_t)(count + 1));
    ps_store_relaxed(&magazine->x_bytes, magazine->x_bytes + bytes); /* relaxed: statistics */
    return true;
}

/* Allocates a run of any length, as ps_pages_alloc, when the magazine has none. 0 and errno on
 * failure. */
uintptr_t ps_magazine_take_slow(size_t bytes, size_t align);

/* Returns pages that did not fit into the magazine. */
void ps_magazine_give_slow(char *pages, size_t bytes);

/* Empties the calling thread's magazine. */
void ps_magazine_flush(void);

/* Total bytes of all magazines. */
size_t ps_magazine_all_bytes(void);

/* In the child of a fork, on its only thread: repairs the list's lock; then, with all locks free,
 * empties the magazines of threads that do not exist there. */
void ps_magazine_fork_child(void);
void ps_magazine_fork_salvage(void);

#endif
