/* SPDX-License-Identifier: MIT */
/*
 * Returns from a heap: the blocks of a bin to their span, and spans to the orphans
 * (small/orphans.h), from which other heaps adopt them.
 *
 * Callers: thread.c, maintenance.c, refill.c, harden/guard_refill.c, profile/countdown.c: the owner
 * of the heap. Locks: the orphan lock.
 */
#ifndef PS_HEAP_BIN_RETURN_H
#define PS_HEAP_BIN_RETURN_H

#include "pools/engine/heap/heap.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Blocks that malloc can take from a class before the next refill, if none is freed. */
size_t ps_bin_blocks(const struct ps_heap *heap, uint32_t class_index);

/* Returns blocks of a bin to its span until at most `kept` of them can be taken before the next
 * refill. Precondition: the current span of the class is settled. */
void ps_bin_shorten(struct ps_heap *heap, uint32_t class_index, size_t kept);

/* Returns the blocks of the bin to its span; the bin has no span afterwards, the span is available,
 * full or released. */
void ps_heap_empty_bin(struct ps_heap *heap, uint32_t class_index);

/*
 * Clears a heap of everything except full spans, which the first returned block finds. Called by
 * its thread, at its end, or by the thread that has taken it. streak_next, streak_step: state of
 * its open streak. Releases at most *spans spans, and subtracts them there; returns false if some
 * are left.
 */
bool ps_heap_clear_out(struct ps_heap *heap, char *streak_next, ptrdiff_t streak_step,
                       uint32_t *spans);

#endif
