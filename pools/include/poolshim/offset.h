/* SPDX-License-Identifier: MIT */
/*
 * offset.h - how blocks refer to each other in memory that another process has at another address:
 * by offsets from its start, or by links, which are self-relative. For blocks of an arena (arena.h)
 * or of a shared heap (shared.h), whose headers include this one.
 *
 *     struct entry {
 *         struct ps_link next;
 *         int value;
 *     };
 *     ps_link_set(&entry->next, first);
 *     for (struct entry *at = entry; at != NULL; at = ps_link_get(&at->next)) { ... }
 *
 * Threads: as for any memory. O(1), no calls.
 */
#ifndef POOLSHIM_OFFSET_H
#define POOLSHIM_OFFSET_H

#include <poolshim/common.h>

PS_BEGIN_DECLS

/* A place, in bytes from the start; multiples of 16 for blocks. 0: none. */
typedef uint64_t ps_offset;

/* On functions that return blocks. Not the attribute malloc: a block that only its offset refers to
 * is read later, by a commit or another process, and the compiler may not drop writes to it. */
#define PS_OFFSET_FRESH __attribute__((warn_unused_result))

/*
 * A self-relative pointer in such memory: the distance from itself to its target. All zero is NULL.
 * It is copied by ps_link_set(a, ps_link_get(b)), never by assignment. The same in memory as
 * ps::offset_ptr of offset.hpp.
 */
struct ps_link {
    intptr_t way; /* 0: NULL, else the distance + 1 */
};

static inline void *ps_link_get(const struct ps_link *link) {
    return link->way == 0 ? NULL : (void *)((uintptr_t)link + (uintptr_t)link->way - 1);
}

static inline void ps_link_set(struct ps_link *link, const void *target) {
    link->way = target == NULL ? 0 : (intptr_t)((uintptr_t)target - (uintptr_t)link + (uintptr_t)1);
}

PS_END_DECLS

#endif
