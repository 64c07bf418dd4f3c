/* SPDX-License-Identifier: MIT */
/*
 * Nothing to do around a child that shares its parent's memory.
 */

#define PS_VFORK_DEFINE(name, alias, begin, failed)

static inline void ps_rseq_resume(struct ps_rseq_area *area) { (void)area; }
