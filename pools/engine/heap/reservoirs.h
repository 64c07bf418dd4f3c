/* SPDX-License-Identifier: MIT */
/*
 * The reservoirs of free memory, in one table, in the order in which they feed each other: fronts
 * return blocks to slabs and regions, drained slabs and empty regions become runs. Periodic work,
 * a trim, requests of other processes and the memory limit are loops over the table.
 *
 * Each reservoir has its own rule for what is due (store.h, medium.h, purge.h, mapping.h), its own
 * lock, and bounds a step to about half a millisecond. Callers: maintenance.c, limit.c. Any thread,
 * outside of a lock.
 */
#ifndef PS_HEAP_RESERVOIRS_H
#define PS_HEAP_RESERVOIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* A step of releasing what is due. is_driver: no other thread purges slabs. Returns whether more is
 * due than a step releases, slabs apart (ps_store_purge_is_due). */
bool ps_reservoirs_tick(uint64_t now_ms, bool is_driver);

/* Feeds them: returns blocks of fronts that no thread has used for a while, or all, and drained
 * slabs. may_sleep: see ps_front_return_shared. */
void ps_reservoirs_collect(bool is_all, bool may_sleep);

/* A step of releasing all, due or not. Returns the bytes; sets *has_more if a step may have left
 * some. */
uint64_t ps_reservoirs_release_step(bool *has_more);

/* Releases all except about keep_bytes, at once. Returns whether any memory was released. */
bool ps_reservoirs_release(size_t keep_bytes);

#endif
