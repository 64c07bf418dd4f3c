/* SPDX-License-Identifier: MIT */
/*
 * The levels of POOLSHIM_HARDEN: entry points and hooks, for the table (modes.c). Those that level
 * 1 does not have are the plain mode's; those that level 2 does not have are level 1's or the plain
 * mode's; those that level 3 does not have are level 2's. See hard.h.
 */
#ifndef PS_HARDEN_LEVEL_H
#define PS_HARDEN_LEVEL_H

#include "pools/engine/heap/mode.h"

/* ---- level 1 (level_1.c) ---- */

void *ps_level_1_alloc(size_t bytes);
void *ps_level_1_zalloc(size_t bytes);
void *ps_level_1_alloc_aligned(size_t bytes, size_t align);
void ps_level_1_free(void *block);
void *ps_level_1_resize(void *block, size_t bytes);

bool ps_level_1_start(const struct ps_config *config);
void ps_level_1_release_run(struct ps_run *run);
void ps_level_1_reclaim(void);
void ps_level_1_end_partition(void);

/* For all hardened modes. */
void ps_level_1_fork_child(void);

/* ---- level 2, and those parts of level 3 that it does not have (level_2.c) ---- */

void *ps_level_2_zalloc(size_t bytes);
void *ps_level_2_alloc_aligned(size_t bytes, size_t align);
void *ps_level_2_alloc_in(struct ps_partition *partition,
                          const struct ps_partition_request *request);
void *ps_level_2_resize(void *block, size_t bytes);
size_t ps_level_2_usable(const void *block);

bool ps_level_2_start(const struct ps_config *config);
void ps_level_2_reclaim(void);
void ps_level_2_end_partition(void);

/* ---- level 3 (level_3.c) ---- */

void *ps_level_3_alloc(size_t bytes);
void *ps_level_3_zalloc(size_t bytes);
void *ps_level_3_alloc_aligned(size_t bytes, size_t align);
void ps_level_3_free(void *block);
void *ps_level_3_resize(void *block, size_t bytes);

bool ps_level_3_start(const struct ps_config *config);

#endif
