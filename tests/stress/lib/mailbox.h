/* SPDX-License-Identifier: MIT */
/*
 * Shared boxes through which blocks pass from thread to thread, in batches that preserve their
 * order. Each box has one mutex, taken only to copy records. The forking thread takes them all (in
 * index order) so that a child finds every box consistent.
 */
#ifndef PS_STRESS_MAILBOX_H
#define PS_STRESS_MAILBOX_H

#include "tests/stress/lib/block.h"

#include <stddef.h>

#define MAILBOX_COUNT 16

/* Once, before any thread: no box has more than `bytes` of blocks. */
void mailbox_start(size_t bytes);

/* Moves as many of blocks[0..count) as fit; returns how many were taken, from the front. */
size_t mailbox_put(unsigned box, const struct block *blocks, size_t count);

/* Moves up to `count` blocks, the oldest first, into blocks[]; returns how many. */
size_t mailbox_take(unsigned box, struct block *blocks, size_t count);

void mailbox_lock_all(void);
void mailbox_unlock_all(void);

#endif
