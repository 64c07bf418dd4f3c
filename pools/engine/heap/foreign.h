/* SPDX-License-Identifier: MIT */
/*
 * What happens to pointers that are not ours. Any thread; prints with write(2) only.
 */
#ifndef PS_HEAP_FOREIGN_H
#define PS_HEAP_FOREIGN_H

#include "pools/engine/base/config.h"

/* Once, at start. Until then the policy is to abort. */
void ps_foreign_start(enum ps_foreign policy);

/* Aborts with "poolshim: <what> 0x...", warns, or returns silently, by policy. */
void ps_foreign_met(const void *block, const char *what);

#endif
