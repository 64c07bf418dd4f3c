/* SPDX-License-Identifier: MIT */
/*
 * A map of all live bytes, one bit per 8 bytes of address space, for any number of threads at
 * once without locks: two blocks that share a byte are seen when the second one is marked. The map
 * is a 64th of the address space (2 TiB on x86-64), untouched; only used parts become resident.
 */
#ifndef PS_STRESS_SHADOW_H
#define PS_STRESS_SHADOW_H

#include <stddef.h>

#define SHADOW_CLEAN ((const void *)0)

/* Once, before any thread. Returns 0, or -1 where the address space is limited. */
int shadow_start(void);

/* Marks [bytes, bytes + size); returns an address in it that was live already, or SHADOW_CLEAN. */
const void *shadow_mark(const void *bytes, size_t size);

/* Takes the mark off; returns an address in it that was not live, or SHADOW_CLEAN. */
const void *shadow_clear(const void *bytes, size_t size);

#endif
