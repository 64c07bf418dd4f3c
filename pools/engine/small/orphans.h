/* SPDX-License-Identifier: MIT */
/*
 * Orphans: spans without an owner, because their thread has ended or keeps more room than it
 * may (heap/room.c), kept per class until a thread adopts them. Adoption comes before fresh memory,
 * so threads that come and go leave no growth, and what one thread has freed serves another; an
 * orphan that drains before it is adopted goes back to the page cache from here.
 *
 * Any thread; locks by class (PS_RANK_ORPHAN), which stand in for the missing owner. Callers:
 * heap/.
 */
#ifndef PS_SMALL_ORPHANS_H
#define PS_SMALL_ORPHANS_H

#include "pools/engine/small/span.h"

/* Owner: gives a span up. It is on no list; its bin holds none of its blocks. */
void ps_orphans_add(struct ps_span *span);

/* An orphan of the class, one with room if there is any; now owned by owner_key, on no list, place
 * not set. NULL when the class has none. */
struct ps_span *ps_orphans_adopt(uint32_t class_index, uintptr_t owner_key);

/* A QUEUED span whose owner was the orphan list when the caller looked: settles it, or, with an
 * owner_key that is not PS_KEY_ORPHAN, makes it that owner's, as ps_orphans_adopt. False when it
 * has been adopted since. */
bool ps_orphans_notice(struct ps_span *span, uintptr_t owner_key);

/*
 * A QUEUED span whose owner died in a fork, its account possibly half-written: keeps only what is
 * certain, the blocks handed back since, counts all others as used, and makes it an orphan. False
 * when dead_key is no longer its owner.
 */
bool ps_orphans_salvage(struct ps_span *span, uintptr_t dead_key);

/* Spans in the orphan list. */
uint64_t ps_orphans_count(void);

/* In the child of a fork, by its only thread. */
void ps_orphans_fork_child(void);

#endif
