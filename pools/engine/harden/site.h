/* SPDX-License-Identifier: MIT */
/*
 * Heaps by call site (level 3 of hard.h). A small block lies in one of PS_PARTITION_PARTS parts of
 * the plain heap (front/partition.h), which the return address of malloc's caller chooses. An
 * address never passes from one part to another. So a stale pointer to a block that one place of
 * the program has allocated reaches blocks of the same place, and of those that share its part; as
 * long as no more places than parts have allocated, of no other.
 *
 * A table has the part of each known site. A new one gets the next part in an order that is drawn
 * at start, and again for each round of all parts: the first PS_PARTITION_PARTS sites have a part
 * each. A site that finds no place in PS_SITE_TRIES entries is not entered: a hash chooses its
 * part.
 *
 * An entry is a word, and is written once, by a swap. Two threads that find a site new at the same
 * moment agree by it; one draw is lost, so that a part may get its second site early. An entry of
 * code that was unloaded remains: code that is loaded there later shares the part of the former,
 * which is what sites beyond the first ones do anyway. The child of a fork has the table as it was.
 * A part that another thread was about to begin then never begins there: its sites have the plain
 * heap, as they have while a part is being made.
 *
 * A function of the library that does not end in a tail call notes the site of its caller for the
 * request that follows (ps_site_note). A signal handler in between may take it, or leave its own: a
 * block is then in another site's part, where it remains.
 *
 * Callers: level_3.c; shim/, by ps_note_site of entry.h. Any thread. No locks.
 */
#ifndef PS_HARDEN_SITE_H
#define PS_HARDEN_SITE_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/front/partition.h"
#include "pools/engine/heap/front_thread.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_SITE_TRIES 16
#define PS_SITE_PLACES_SHIFT 12
#define PS_SITE_PLACES ((size_t)1 << PS_SITE_PLACES_SHIFT)

/* In an entry, below the site. */
#define PS_SITE_PART_BITS 8

struct ps_site_table {
    uint64_t factor;                    /* odd, random */
    uint64_t order;                     /* random */
    uint64_t x_entries[PS_SITE_PLACES]; /* site and part; 0: none */
};
extern PS_HIDDEN struct ps_site_table *ps_site_table; /* NULL: sites have no parts */

/* Any thread adds. Read from outside the process, too: record/layout.h. */
extern PS_HIDDEN struct ps_site_counts {
    uint64_t x_parts;  /* that sites may have; 0: level 3 is off */
    uint64_t x_known;  /* sites */
    uint64_t x_shared; /* of them, those whose part another one has, too */
} ps_site_counts;

/* Called once, before the first block. Without memory sites have no parts. */
void ps_site_start(void);

/* The part of a site that is not at its first place, or new. NULL: the plain heap has its blocks.
 */
struct ps_partition *ps_site_find(uintptr_t site);

PS_INLINE size_t ps_site_hash(uintptr_t site) {
    return (size_t)((site * ps_site_table->factor) >> (64 - PS_SITE_PLACES_SHIFT));
}

/* The part of a site at its first place, where sites have parts; NULL: it is elsewhere, or new. */
PS_INLINE struct ps_partition *ps_site_known(uintptr_t site) {
    /* acquire: pairs with the swap of ps_site_find; makes the part visible. */
    uint64_t entry = ps_load_acquire(&ps_site_table->x_entries[ps_site_hash(site)]);
    return PS_LIKELY(entry >> PS_SITE_PART_BITS == site)
               ? &ps_partition_parts[entry % PS_PARTITION_PARTS]
               : NULL;
}

/* ---- notes: for the next request of the calling thread ---- */

/* True if sites have parts. */
static inline bool ps_site_is_on(void) { return ps_site_table != NULL; }

/* Values of ps_front_thread.noted_part: 0, a part plus 1, or this. */
#define PS_SITE_NOTED_NONE ((uint8_t)UINT8_MAX)

PS_INLINE void ps_site_note_part(const struct ps_partition *part) {
    ps_front_thread.noted_part =
        part != NULL ? (uint8_t)(part - ps_partition_parts + 1) : PS_SITE_NOTED_NONE;
}

/* Notes the part of a site. */
void ps_site_note(uintptr_t site);

/* The part for a request: the noted one, or that of the site. NULL as above. */
struct ps_partition *ps_site_take(uintptr_t site);

#endif
