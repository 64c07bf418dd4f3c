/* SPDX-License-Identifier: MIT */
/*
 * A small world below the engine: a few granules, memory for metadata, and the real page map. Locks
 * are modelled without their inside.
 */
#ifndef WORLD_H
#define WORLD_H

#include "pools/engine/page/page_map.h"

#include <explore.h>

#define WORLD_GRANULES 2

/* Makes the page map cover the granules, under its lock. */
bool world_cover(void);

char *world_granule(size_t index);

#endif
