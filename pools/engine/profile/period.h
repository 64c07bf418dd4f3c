/* SPDX-License-Identifier: MIT */
/*
 * The peak of a period: the most memory that was live at once, of samples that were taken in it,
 * and what each stack had then. O(1) for a sample: a stack notes what it had at the last peak when
 * it changes for the first time since. Caller: table.c, with the lock of the table.
 */
#ifndef PS_PROFILE_PERIOD_H
#define PS_PROFILE_PERIOD_H

#include "pools/engine/profile/table.h"

/* In a section of changes. sign: PS_TABLE_ALLOCATED or PS_TABLE_FREED. */
void ps_period_count(const struct ps_sample *sample, uint64_t sign);

#endif
