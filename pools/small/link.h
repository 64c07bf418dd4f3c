/* SPDX-License-Identifier: MIT */
/*
 * Links: the first word of a free block leads to the next one of its list, in memory that a program
 * with a bug may still write to. So nobody follows a link without a look at it.
 *
 *   - A list ends with an odd address in the slice of its blocks, so that each link, the last one
 *     too, lies within `reach` of the block that it stands in: (link ^ block) <= reach.
 *   - Whoever takes a block off a list clears its link. A block that is on a list twice, since it
 *     was freed twice, is therefore found when it comes up the second time.
 *   - Where blocks are hardened, links are stored with a secret, which makes every value that a
 *     program may write one that leads far away. The secret is 0 otherwise, and the hit paths of
 *     fast_path.h, which serve only then, know nothing of it.
 *
 * (Checking that a link stays near after snmalloc's and mimalloc's secure builds; storing them with
 * a secret after glibc's safe linking.)
 */
#ifndef PS_SMALL_LINK_H
#define PS_SMALL_LINK_H

#include "pools/base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

extern PS_HIDDEN uintptr_t ps_link_secret;

/* End of a list that belongs to no slice. */
#define PS_LINK_END ((void *)1)

PS_INLINE bool ps_link_is_end(const void *link) { return ((uintptr_t)link & 1) != 0; }

/* Stores what follows `block` on its list. */
PS_INLINE void ps_link_set(void *block, const void *link) {
    *(uintptr_t *)block = (uintptr_t)link ^ ps_link_secret;
}

/* What follows `block`; as it stands there. */
PS_INLINE void *ps_link_of(const void *block) {
    return (void *)(*(const uintptr_t *)block ^ ps_link_secret);
}

/* What a link that nobody has written over keeps to. */
PS_INLINE bool ps_link_is_near(const void *block, const void *link, uintptr_t reach) {
    return ((uintptr_t)link ^ (uintptr_t)block) <= reach;
}

/* Forgets the link of a block that leaves its list. */
PS_INLINE void ps_link_clear(void *block) { *(uintptr_t *)block = 0; }

#endif
