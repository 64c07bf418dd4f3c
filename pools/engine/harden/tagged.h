/* SPDX-License-Identifier: MIT */
/*
 * Small blocks with memory tags (POOLSHIM_HARDEN=mte; os/mte.h): entry points and hooks, for the
 * table (modes.c).
 *
 * A live block has a tag, in its pointer and in its memory. The tags of blocks of even index in
 * their slab are even, of others odd, so that no block has the tag of its neighbours: an access
 * beyond either end of a block faults. free gives the block's memory another tag, with which malloc
 * returns it again: an access by the old pointer faults, while the block is free and when it has
 * its next owner. That tag is drawn from the two that follow in the order of the seven even tags
 * but 0, or of the eight odd ones. So a pointer's tag does not return for the next three lives of
 * its block, and counting lives does not tell when it does.
 *
 * All memory but that of blocks which have been granted has tags of 0: of large blocks, ends of
 * slabs, free runs. Slabs are cut so that two blocks of even index never meet.
 *
 * Neither malloc nor free takes the fast path, and there are no windows and marks: malloc reads the
 * block's tag, free compares it with the pointer's. Addresses in fronts, stores and tables are
 * without tags. A request of 8 bytes gets 16, since two such blocks would share a tag. Large blocks
 * are as at level 3: an inaccessible page after each, freed runs quarantined and inaccessible.
 *
 * (Tags by turns for even and odd blocks, and a new tag at each free, follow Scudo.)
 *
 * Callers: modes.c, shim/. Any thread. No locks of its own.
 */
#ifndef PS_HARDEN_TAGGED_H
#define PS_HARDEN_TAGGED_H

#include "pools/engine/heap/mode.h"

void *ps_tagged_alloc(size_t bytes);
void *ps_tagged_zalloc(size_t bytes);
void *ps_tagged_alloc_aligned(size_t bytes, size_t align);
void *ps_tagged_alloc_in(struct ps_partition *partition,
                         const struct ps_partition_request *request);
void ps_tagged_free(void *pointer);
void *ps_tagged_resize(void *pointer, size_t bytes);
size_t ps_tagged_usable(const void *pointer);

bool ps_tagged_start(const struct ps_config *config);

/* Installs the fault handler where blocks have tags. Called once. (tagged_report.c) */
void ps_tagged_watch(void);

#endif
