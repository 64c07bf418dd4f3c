/* SPDX-License-Identifier: MIT */
/*
 * A small world below the engine's spans: a size class of few blocks, a few granules in a page
 * cache that counts its allocations, and the real page map. Released spans are dead: touching one
 * is an error. Locks are modelled without their inside. For models of pools/engine/small and
 * pools/engine/heap.
 */
#ifndef WORLD_H
#define WORLD_H

#include "pools/engine/small/span.h"

#include <explore.h>

#define WORLD_GRANULES 2
#define WORLD_BLOCK_BYTES 16

/* Before a scenario: the size class has so many blocks a span, and a full span wakes its owner when
 * so many are back. */
void world_begin(uint16_t blocks, uint16_t notice_blocks);

/* The two halves of that: the class, and the page map's leaf. */
void world_classes(uint16_t blocks, uint16_t notice_blocks);
bool world_cover(void);

/* A span of this owner whose blocks are all with the program; place FULL, settled. */
struct ps_span *world_full_span(uintptr_t owner_key);

/* The program is done with a block: writes to all of it. */
void *world_block(struct ps_span *span, size_t index);

/* Granules given back less those taken again. */
unsigned world_given(void);

/* Every block of a settled span that is not dead is free, once, and its memory the caller's. */
void world_check_all_free(struct ps_span *span);

#endif
