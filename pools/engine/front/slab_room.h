/* SPDX-License-Identifier: MIT */
/*
 * Usable addresses of a slab. Without hardening: all. At levels 2 and 3 (harden/hard.h) the last
 * page is inaccessible, and a sparse slab has only one or two accessible pages, at a random place.
 * So an access one page, or a multiple of a granule, away from a block usually faults. The bits of
 * blocks that are not accessible stay 0: they are never handed out.
 *
 * There the blocks of a slab begin as never made, as far as their shadow bytes tell (shadow.h). If
 * blocks have memory tags, all addresses of a slab are usable, and its memory has tags of 0 when it
 * begins, and again when it ends, as all other memory of runs.
 *
 * Callers: store_lists.c, for a slab that no other thread knows; harden/. No locks.
 */
#ifndef PS_FRONT_SLAB_ROOM_H
#define PS_FRONT_SLAB_ROOM_H

#include "pools/engine/front/slab.h"

#include <stdbool.h>
#include <stdint.h>

enum ps_slab_guard { PS_SLAB_UNGUARDED = 0, PS_SLAB_GUARDED_END, PS_SLAB_SPARSE };

/* Slabs of a class beyond so many are not sparse: more of them would cost short loops more system
 * calls than blocks. 0 without hardening; set before the first slab. */
extern PS_HIDDEN uint32_t ps_slab_sparse_slabs;

/* Sets fresh and capacity of a slab, and makes its blocks accessible. False: the system refuses, or
 * there is no memory for shadow bytes. */
bool ps_slab_open(struct ps_slab *slab, bool is_sparse);

/* Called before the run returns to the page cache. Leaves accessible the pages that are accessible
 * in a usual slab. */
void ps_slab_shut(const struct ps_slab *slab);

#endif
