/* SPDX-License-Identifier: MIT */
/*
 * Orphans: spans without an owner, because their thread has ended, their heap exceeded its bound
 * (heap/room.c), or all threads share them (heap/bin_return.h). Each class has lists of them, from
 * which refills adopt. Adoption precedes fresh memory, so that short threads cause no growth and
 * blocks freed by one thread serve others. An orphan that drains first returns to the page cache
 * from here.
 *
 * Any thread. One lock per group of classes (PS_RANK_ORPHAN) replaces the owner's exclusive access.
 * Callers: heap/.
 */
#ifndef PS_SMALL_ORPHANS_H
#define PS_SMALL_ORPHANS_H

#include "pools/engine/small/span.h"

#define PS_ORPHANS_EXAMINED 4 /* without room, per adoption: bounds its time */

/* Owner: makes the span an orphan. It is on no list; its bin has none of its blocks. is_next: if it
 * has room, it is adopted before all others of its class, so that one is filled after the other and
 * the rest may drain. */
void ps_orphans_add(struct ps_span *span, bool is_next);

/* Adopts an orphan of the class for owner_key: one of this node (page/node.h), or of any, if this
 * one has none; one with room, or to which blocks have returned. The span is on no list and has no
 * place. NULL: none was found. */
struct ps_span *ps_orphans_adopt(uint32_t class_index, uintptr_t owner_key, bool is_any_node);

/* Handles a notice of a QUEUED span that was an orphan when the caller read its owner: settles it,
 * or, unless owner_key is PS_KEY_ORPHAN, adopts it for owner_key. A span that a thread purges at
 * the moment remains an orphan, and is settled after the purge. */
enum ps_orphan_notice {
    PS_ORPHAN_OWNED = 0, /* it has been adopted meanwhile; nothing is done */
    PS_ORPHAN_KEPT,
    PS_ORPHAN_ADOPTED,
};
enum ps_orphan_notice ps_orphans_notice(struct ps_span *span, uintptr_t owner_key);

/*
 * Makes an orphan of a QUEUED span whose owner does not exist in this child of a fork. Its account
 * may be half-written: collects the blocks returned since the fork and counts all others as used.
 * Returns false when dead_key is no longer the owner.
 */
bool ps_orphans_salvage(struct ps_span *span, uintptr_t dead_key);

/*
 * An orphan is idle when it has room, and was neither adopted nor given a notice of returned blocks
 * for a number of epochs. ps_orphans_age begins an epoch; one thread calls it.
 *
 * ps_orphans_take_idle continues the last call's walk over the orphans of a class and a node. It
 * examines a few, settles the first idle one and removes it from its list; NULL: none of them is
 * idle. *is_last: all have been examined, and the next call begins again. The caller alone may
 * change the span's account until ps_orphans_return. Blocks returned meanwhile are collected
 * afterwards. The span is idle again only after an adoption or further returns. Such spans are
 * adopted after all others with room, purged ones last. If the program forks between both calls,
 * the span is lost in the child.
 */
void ps_orphans_age(void);
struct ps_span *ps_orphans_take_idle(uint32_t class_index, uint32_t node, uint32_t epochs,
                                     bool *is_last);
void ps_orphans_return(struct ps_span *span, bool is_purged);

/* Number of orphans, of all classes and of one: a snapshot. */
uint64_t ps_orphans_count(void);
uint64_t ps_orphans_of_class(uint32_t class_index);

/* Repairs the locks in the child of a fork, on its only thread. */
void ps_orphans_fork_child(void);

#endif
