/* SPDX-License-Identifier: MIT */
/*
 * The way back to a span for blocks freed by other threads: one 64-bit word that holds two chains
 * and their totals, so that handing over a batch of any size is one compare-and-swap and the owner
 * settles it without walking.
 *
 *   bits  0..13  index + 1 of the first block of the list (links are pointers in the blocks)
 *        14..27  blocks on the list
 *        28..41  index + 1 of the first free run (struct ps_gap in its first block)
 *        42..55  blocks in the runs
 *        56      QUEUED: x_notice_at blocks, or all, are back and the span is on its way to a
 * notice list 57      CLAIMED: every block is back; a thread that is not the owner looks whether it
 * may have the span 58      DRAINED: it may not; the chains are gone and every block is free
 *
 * QUEUED is set by exactly one hander-over, in the swap that reaches x_notice_at or the last block,
 * and cleared by the thread that takes the span off the list of notices. A span that is QUEUED is
 * never destroyed. The word is consistent at every instant, so fork may happen at any time.
 *
 * x_notice_at is stored without a fence, since the owner stores it at every turn from full to
 * available and a locked instruction there costs more than the turn: a hand-over at that very
 * moment may miss it. The next one to the same span sees it; if there is none, some blocks are
 * still out, and a span with room is looked at when its class is refilled, at a trim, or at the end
 * of the thread. The hand-over of the last block does not depend on x_notice_at: a span that is
 * wholly back is always QUEUED. (Packing head and count into one word after rpmalloc, batches per
 * span after snmalloc.)
 */
#ifndef PS_SMALL_SPAN_REMOTE_H
#define PS_SMALL_SPAN_REMOTE_H

#include "pools/engine/small/span.h"

#define PS_REMOTE_QUEUED ((uint64_t)1 << 56)
#define PS_REMOTE_CLAIMED ((uint64_t)1 << 57)
#define PS_REMOTE_DRAINED ((uint64_t)1 << 58)
#define PS_NOTICE_NEVER UINT16_MAX

/*
 * Hands over a list of `blocks` blocks, linked by pointers, head to tail; or, as a run, adjacent
 * blocks from `lowest` up. Any thread. Cost: one compare-and-swap; the run touches its first block
 * only.
 */
enum ps_handed {
    PS_HANDED_OVER = 0,
    PS_HANDED_NOTICE = 1, /* bit: the caller must now wake the owner; it has set QUEUED */
    PS_HANDED_ALL = 2,    /* bit: every block is back, and the owner's wake is on its way */
};
unsigned ps_span_hand_list(struct ps_span *span, void *head, void *tail, size_t blocks);
unsigned ps_span_transfer_blocks(struct ps_span *span, char *lowest, size_t blocks);

/* Owner: takes what was handed over into stash and runs. While stash is not empty it does nothing,
 * but when all blocks that are out have come back it resets the span. Returns the number of blocks
 * that came back. */
size_t ps_span_collect(struct ps_span *span);

/*
 * Owner: asks to be woken when `blocks` blocks have been handed over. False when as many are
 * already there: collect instead. True also when a notice is on its way anyway.
 */
bool ps_span_arm(struct ps_span *span, size_t blocks);

/*
 * Any thread that took the span, QUEUED, off its owner's list of notices: makes it the caller's, to
 * be destroyed, when every block has been handed back and the owner has let go of it. Then the
 * owner will not touch it: it has no block of it to free, the span is on none of its lists, and the
 * notice that could tell of it is the caller's.
 */
bool ps_span_steal(struct ps_span *span);

/* In the child of a fork, by its only thread: ends a steal that another thread was at, wherever it
 * stood. True: the span is the caller's, to be destroyed; false: its notice must be sent on. */
bool ps_span_finish_steal(struct ps_span *span);

/* Owner: has nothing of a full span any more but the frees and notices to come. The last thing it
 * does with the span; ps_span_attach ends that before it looks at the span again. */
void ps_span_detach(struct ps_span *span);
void ps_span_attach(struct ps_span *span);

/* Whoever took the span off a list of notices. */
void ps_span_clear_queued(struct ps_span *span);

static inline bool ps_span_is_queued(const struct ps_span *span) {
    /* acquire: pairs with ps_span_clear_queued, after which the span may be destroyed. */
    return (ps_load_acquire(&span->x_remote) & PS_REMOTE_QUEUED) != 0;
}

/* The newest block that waits there on a list; the end of the span's lists when there is none. */
void *ps_span_remote_list(const struct ps_span *span);

/* Blocks that wait on the word. */
size_t ps_span_remote_blocks(const struct ps_span *span);

/* Owner, settled account: blocks neither back nor on the word. */
static inline size_t ps_span_out_blocks(const struct ps_span *span) {
    size_t back = ps_span_remote_blocks(span);
    return span->used > back ? span->used - back : 0;
}

/*
 * Owner: blocks on the word that make a span that is not current worth a look. A full one, when an
 * eighth of it is back. Another one may drain by the owner's frees, by others', or by any mixture.
 * While only the owner frees, he waits for all that is out, and the first hand-over calls him. Then
 * both sides wait for half of what is out, so one of them fires before all of it is back, and the
 * rest is halved again.
 */
size_t ps_span_notice_blocks(const struct ps_span *span);

#endif
