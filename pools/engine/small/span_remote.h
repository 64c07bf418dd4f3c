/* SPDX-License-Identifier: MIT */
/*
 * The remote word of a span, through which other threads return blocks: 64 bits with two chains and
 * their totals, so that a batch of any size is transferred by one compare-and-swap, and the owner
 * settles it without a walk.
 *
 *   bits  0..13  index + 1 of the first block of the list (links are pointers in the blocks)
 *        14..27  blocks on the list
 *        28..41  index + 1 of the first gap (struct ps_gap in its first block)
 *        42..55  blocks in the gaps
 *        56      QUEUED: x_notice_at blocks, or all, are back; a notice is on its way
 *        57      CLAIMED: all blocks are back; another thread checks whether it may take the span
 *        58      DRAINED: it may not; the chains are lost and every block is free
 *
 * One swap sets QUEUED: that of the transfer that reaches x_notice_at or the last block, or the
 * owner's when memory is exhausted. The thread that takes the span off the list of notices clears
 * it. A QUEUED span is never destroyed. The word is consistent at each instant, so a fork may
 * happen at any time.
 *
 * x_notice_at is stored without a fence, because the owner stores it at every change from full to
 * available, and a locked instruction there costs more than the change itself. A concurrent
 * transfer may miss the store. The next transfer to the span sees it; if there is none, some blocks
 * are still out, and spans with room are collected by a refill of their class, by a trim, and at
 * the end of the thread. The transfer of the last block does not depend on x_notice_at: a fully
 * free span is always QUEUED. (Head and count in one word after rpmalloc, batches per span after
 * snmalloc.)
 */
#ifndef PS_SMALL_SPAN_REMOTE_H
#define PS_SMALL_SPAN_REMOTE_H

#include "pools/engine/small/span.h"

#define PS_REMOTE_QUEUED ((uint64_t)1 << 56)
#define PS_REMOTE_CLAIMED ((uint64_t)1 << 57)
#define PS_REMOTE_DRAINED ((uint64_t)1 << 58)
#define PS_REMOTE_BITS 14 /* of each of the four fields */
#define PS_REMOTE_MASK (((uint64_t)1 << PS_REMOTE_BITS) - 1)
#define PS_REMOTE_LIST_SHIFT 14 /* of the blocks on the list */
#define PS_REMOTE_GAPS_SHIFT 42 /* of those in the gaps */
#define PS_NOTICE_NEVER UINT16_MAX

/*
 * Transfers `blocks` blocks to the span: a list, linked by pointers from head to tail, or, as a
 * gap, adjacent blocks from `lowest` up. Any thread. Cost: one compare-and-swap; a gap touches its
 * first block only.
 */
enum ps_handed {
    PS_HANDED_OVER = 0,
    PS_HANDED_NOTICE = 1, /* bit: the caller has set QUEUED and must send the notice */
    PS_HANDED_ALL = 2,    /* bit: every block is back, and a notice is on its way */
};
unsigned ps_span_hand_list(struct ps_span *span, void *head, void *tail, size_t blocks);

/* The same of one block, in fewer instructions. */
unsigned ps_span_hand_one(struct ps_span *span, void *block);
unsigned ps_span_transfer_blocks(struct ps_span *span, char *lowest, size_t blocks);

/* Owner: moves the returned blocks to stash and gaps. While the stash is not empty it does nothing,
 * unless all blocks that are out have been returned: then it resets the span. Returns the number of
 * blocks collected. */
size_t ps_span_collect(struct ps_span *span);

/*
 * Owner: requests a notice when `blocks` blocks have been returned. Returns false when that many
 * already have been: collect instead. Also true when a notice is already on its way.
 */
bool ps_span_arm(struct ps_span *span, size_t blocks);

/* Owner: requests no notice until the last block has been returned. */
static inline void ps_span_disarm(struct ps_span *span) {
    ps_store_relaxed(&span->x_notice_at, (uint16_t)PS_NOTICE_NEVER); /* relaxed: see above */
}

/* As ps_span_arm, in fewer instructions, if no block has been returned. Returns false if one has.
 */
static inline bool ps_span_arm_unreturned(struct ps_span *span, size_t blocks) {
    ps_store_relaxed(&span->x_notice_at, (uint16_t)blocks); /* relaxed, both: see above */
    return ps_load_relaxed(&span->x_remote) == 0;
}

/*
 * Any thread that took the span, QUEUED, off the list of notices of the heap with this key: makes
 * the span the caller's, to be destroyed, if every block has been returned, and that heap owns the
 * span and has detached it. The owner cannot touch it then: it has no block of it to free, the span
 * is on none of its lists, and the caller has taken the notice that would lead to it.
 */
bool ps_span_steal(struct ps_span *span, uintptr_t owner_key);

/* In the child of a fork, on its only thread: completes or cancels a steal that another thread
 * was executing. True: the span is the caller's, to be destroyed; false: its notice must be
 * forwarded. */
bool ps_span_finish_steal(struct ps_span *span);

/* Owner: leaves a full span to remote frees and their notices. Must be its last access to the span;
 * ps_span_attach precedes the next one. */
void ps_span_detach(struct ps_span *span);
void ps_span_attach(struct ps_span *span);

/* Owner: sets QUEUED itself, so that the span may be on a list of notices before as many blocks are
 * back as x_notice_at says. Returns false when a notice is on its way already. */
bool ps_span_queue(struct ps_span *span);

/* Clears QUEUED. Called by the thread that took the span off a list of notices. */
void ps_span_clear_queued(struct ps_span *span);

static inline bool ps_span_is_queued(const struct ps_span *span) {
    /* acquire: pairs with ps_span_clear_queued, after which the span may be destroyed. */
    return (ps_load_acquire(&span->x_remote) & PS_REMOTE_QUEUED) != 0;
}

/* The newest returned block on the list; the end of the span's lists when there is none. */
void *ps_span_remote_list(const struct ps_span *span);

/* Number of returned blocks that are not collected yet. */
size_t ps_span_remote_blocks(const struct ps_span *span);

/* Any thread: blocks of the span in a bin's window, at this moment. */
static inline size_t ps_span_window_blocks(const struct ps_span *span) {
    size_t carved = ps_load_relaxed(&span->carved); /* relaxed: a snapshot */
    size_t handed = ps_span_handed_index(span);
    return carved > handed ? carved - handed : 0;
}

/* Any thread: blocks of the span that are live, as far as its account says at this moment. */
size_t ps_span_live_blocks(const struct ps_span *span);

/* Owner, settled account: blocks that are neither back nor on the remote word. */
static inline size_t ps_span_out_blocks(const struct ps_span *span) {
    size_t back = ps_span_remote_blocks(span);
    return span->used > back ? span->used - back : 0;
}

/*
 * Owner: threshold of returned blocks at which the span is worth collecting, unless it is current.
 * Full spans: an eighth of the blocks. Other spans may drain by frees of the owner, of other
 * threads, or of both. If only the owner has freed so far, the threshold is all outstanding blocks,
 * and the first remote batch lowers it: then both sides have thresholds of half of the outstanding
 * blocks. One side reaches its threshold before all are back, and the rest is halved again.
 */
size_t ps_span_notice_blocks(const struct ps_span *span);

#endif
