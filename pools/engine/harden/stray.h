/* SPDX-License-Identifier: MIT */
/*
 * Addresses that are neither a block of a span nor a large block: guarded samples, blocks of size
 * 0, blocks made before relocation, and foreign pointers. Behind the hooks of all modes. Any
 * thread; reports with write(2) only.
 */
#ifndef PS_HARDEN_STRAY_H
#define PS_HARDEN_STRAY_H

#include "pools/engine/base/config.h"
#include "pools/engine/small/span.h"

/* Called once, at start. Until then the policy is to abort. */
void ps_stray_start(const struct ps_config *config);

/* As the hooks of these names: mode.h. */
void ps_stray_free(struct ps_slot *slot, void *block);
size_t ps_stray_usable(const struct ps_slot *slot, const void *block, enum ps_misuse_call call);

#endif
