/* SPDX-License-Identifier: MIT */
/*
 * Blocks of no size, where blocks are hardened: addresses in inaccessible pages, so that who reads
 * or writes there stops. Each is a multiple of 64; what is live is known out of band
 * (shadow.h). Callers: refill.c, hard.c, alloc.c, resize.c, promise.c. Any thread. No locks.
 */
#ifndef PS_HARDEN_ZERO_H
#define PS_HARDEN_ZERO_H

#include "pools/engine/page/page_map.h"

#include <stdbool.h>

#define PS_ZERO_ALIGN 64

/* NULL with errno ENOMEM. */
void *ps_zero_alloc(void);

/* Whether a live block of no size is there; any address. */
bool ps_zero_is_live(const void *block);

/* Frees what lies in a slot of kind PS_RUN_ZERO; aborts when that is no live block. */
void ps_zero_free(struct ps_slot *slot, void *block);

#endif
