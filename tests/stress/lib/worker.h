/* SPDX-License-Identifier: MIT */
/*
 * A worker: the table of blocks and the random walk of one lane. A lane is a succession of
 * threads, one at a time, that work on the same table, so that blocks outlive their thread.
 */
#ifndef PS_STRESS_WORKER_H
#define PS_STRESS_WORKER_H

#include "tests/stress/lib/block.h"
#include "tests/stress/lib/sizes.h"

#include <stddef.h>
#include <stdint.h>

#define WORKER_SLOTS 4096
#define WORKER_BURST 4096

struct worker {
    struct random_state random;
    struct sizes_profile sizes;
    size_t live_bytes;
    size_t live_bytes_max;
    struct block slots[WORKER_SLOTS]; /* fork children read them: see block.bytes */
    struct block burst[WORKER_BURST];
};

/* Walks until `operations` API calls are made, finding_place.operation counted on. */
void worker_run(struct worker *worker, uint64_t operations);

/* Ends a generation: leaves, posts or frees the blocks in the table. */
void worker_leave(struct worker *worker);

/* Checks and frees everything in the table and the burst. */
void worker_free_all(struct worker *worker);

/* Checks and frees everything in the mailboxes. */
void worker_empty_mailboxes(struct worker *worker);

#endif
