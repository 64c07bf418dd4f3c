/* SPDX-License-Identifier: MIT */
/*
 * Addresses that are neither a block of a slab nor a large block: guarded samples, blocks of size
 * 0, blocks made before relocation, and foreign pointers. Called by the hooks of all modes. Any
 * thread; reports with write(2) only.
 */
#ifndef PS_HARDEN_STRAY_H
#define PS_HARDEN_STRAY_H

#include "pools/engine/base/config.h"
#include "pools/engine/page/page_map.h"
#include "pools/engine/small/misuse.h"

#include <stdbool.h>

/* Called once, at start. Until then the policy is to abort. */
void ps_stray_start(const struct ps_config *config);

/* As the hooks of these names: mode.h. */
void ps_stray_free(struct ps_slot *slot, void *block);
size_t ps_stray_usable(const struct ps_slot *slot, const void *block, enum ps_misuse_call call);

/* ---- blocks of size 0 ---- */

/*
 * While blocks are hardened they are addresses in inaccessible pages, so that accesses fault. Each
 * is a multiple of 64; shadow bytes record the live ones (shadow.h). No locks.
 */

#define PS_ZERO_ALIGN 64

/* Allocates one. NULL with errno ENOMEM. */
void *ps_zero_alloc(void);

/* True when the address is a live block of size 0; any address. */
bool ps_zero_is_live(const void *block);

/* Frees a block in a slot of kind PS_RUN_ZERO; aborts if it is not live. */
void ps_zero_free(struct ps_slot *slot, void *block);

#endif
