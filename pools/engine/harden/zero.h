/* SPDX-License-Identifier: MIT */
/*
 * Blocks of size 0 while blocks are hardened: addresses in inaccessible pages, so that accesses
 * fault. Each is a multiple of 64; shadow bytes record the live ones (shadow.h). Callers: hard.c,
 * level_1.c, level_2.c, promise.c, stray.c. Any thread. No locks.
 */
#ifndef PS_HARDEN_ZERO_H
#define PS_HARDEN_ZERO_H

#include "pools/engine/page/page_map.h"

#include <stdbool.h>

#define PS_ZERO_ALIGN 64

/* Allocates one. NULL with errno ENOMEM. */
void *ps_zero_alloc(void);

/* True when the address is a live block of size 0; any address. */
bool ps_zero_is_live(const void *block);

/* Frees a block in a slot of kind PS_RUN_ZERO; aborts if it is not live. */
void ps_zero_free(struct ps_slot *slot, void *block);

#endif
