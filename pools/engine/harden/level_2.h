/* SPDX-License-Identifier: MIT */
/*
 * Levels 2 and 3 of POOLSHIM_HARDEN: entry points and hooks, for the table (modes.c). Missing ones
 * are level 1's, or the plain mode's. See hard.h.
 */
#ifndef PS_HARDEN_LEVEL_2_H
#define PS_HARDEN_LEVEL_2_H

#include "pools/engine/heap/mode.h"

void *ps_level_2_alloc(struct ps_heap *heap, size_t bytes);
void *ps_level_2_zalloc(struct ps_heap *heap, size_t bytes);
void *ps_level_2_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align);
void ps_level_2_free(struct ps_span *span, void *block, uintptr_t owner_key);
void *ps_level_2_resize(void *block, size_t bytes);
size_t ps_level_2_usable(const void *block);

bool ps_level_2_start(const struct ps_config *config);
bool ps_level_2_make_state(void **state);

#endif
