/* SPDX-License-Identifier: MIT */
/*
 * Links: the first word of a free block leads to the next one of its list, in memory that a program
 * with a bug may still read and write. So no link is stored as it is, and none is followed without
 * a look at it.
 *
 *   - What is stored is the address xor the salt of the list: 64 random bits beside its head, new
 *     whenever the span has been reset. A span's own list, its stash, what others hand back and
 * what they gather for it share its salt.
 *   - A list ends with an odd address in the granule of its blocks, so that each link, the last one
 *     too, is near the block that it stands in: the two differ in the low 16 bits only. The list of
 *     a class's LIFO cache ends with PS_LINK_END, and may lead elsewhere.
 *   - A block that is taken off a list has its link cleared; one that moves to another list has it
 * stored anew; and a reset makes a new salt. So a block whose first word is a near link now is on a
 * list: a free of it is the second one, whatever happened in between and whichever thread did the
 * first. Of another word that holds with a chance of 2^-48, and then the link must lead to a block.
 *   - A word that was written over leads far away, with the same certainty.
 *
 * (Checking that a link stays near after snmalloc's and mimalloc's secure builds; storing them with
 * a secret after glibc's safe linking. A salt multiplied by the block's address was tried: three
 * instructions more in each free and each malloc, and a salt as easy to find for one who knows two
 * addresses.)
 */
#ifndef PS_SMALL_LINK_H
#define PS_SMALL_LINK_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/page/page_map.h"

#include <stdbool.h>
#include <stdint.h>

/* End of a list that belongs to no granule. */
#define PS_LINK_END ((void *)1)

/* Once, before the first span. */
void ps_link_start(void);

/* A salt that no list had before. Any thread. */
uintptr_t ps_link_new_salt(void);

/* Random bits that belong to an address in this process: always the same. */
uint64_t ps_link_random_of(const void *address);

PS_INLINE bool ps_link_is_end(const void *link) { return ((uintptr_t)link & 1) != 0; }

/* Stores what follows `block` on its list. */
PS_INLINE void ps_link_write(void *block, const void *link, uintptr_t salt) {
    *(uintptr_t *)block = (uintptr_t)link ^ salt;
}

/* What follows `block`, as it stands there. */
PS_INLINE void *ps_link_of(const void *block, uintptr_t salt) {
    return (void *)(*(const uintptr_t *)block ^ salt);
}

/* What holds for a link within a granule that was not written over. */
PS_INLINE bool ps_link_is_near(const void *block, const void *link) {
    return ((uintptr_t)link ^ (uintptr_t)block) < PS_GRANULE_BYTES;
}

/* Forgets the link of a block that leaves its list. */
PS_INLINE void ps_link_clear(void *block) { *(uintptr_t *)block = 0; }

#endif
