/* SPDX-License-Identifier: MIT */
/*
 * The levels of POOLSHIM_HARDEN: entry points and hooks, for the table (modes.c). Those that level
 * 1 does not have are the plain mode's; those that levels 2 and 3 do not have are level 1's or the
 * plain mode's. See hard.h.
 */
#ifndef PS_HARDEN_LEVEL_H
#define PS_HARDEN_LEVEL_H

#include "pools/engine/heap/mode.h"

/* ---- level 1 (level_1.c) ---- */

void *ps_level_1_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align);
void ps_level_1_free(struct ps_span *span, void *block, uintptr_t owner_key);
void *ps_level_1_resize(void *block, size_t bytes);

bool ps_level_1_start(const struct ps_config *config);
bool ps_level_1_may_open_streak(const struct ps_span *span, const char *newest, ptrdiff_t step);
void ps_level_1_return_streak(struct ps_heap *heap, struct ps_span *span, char *lowest,
                              size_t blocks);
void ps_level_1_release_run(struct ps_run *run);

/* For all hardened modes. */
void *ps_level_1_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes);
void ps_level_1_fork_child(void);

/* ---- levels 2 and 3 (level_2.c) ---- */

void *ps_level_2_zalloc(struct ps_heap *heap, size_t bytes);
void *ps_level_2_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align);
void *ps_level_2_resize(void *block, size_t bytes);
size_t ps_level_2_usable(const void *block);

bool ps_level_2_start(const struct ps_config *config);
bool ps_level_2_make_state(void **state);

#endif
