/* SPDX-License-Identifier: MIT */
/*
 * See span_remote.h.
 */
#include "pools/engine/small/span_remote.h"

#include "pools/engine/base/bits.h"

#define LIST_HEAD_SHIFT 0
#define GAP_HEAD_SHIFT 28

/* 14-bit counts and heads must fit every index + 1 of the smallest block size. */
_Static_assert(PS_GRANULE_BYTES / 8 < PS_REMOTE_MASK, "8-byte blocks of a granule fit the fields");

static size_t field(uint64_t word, unsigned shift) { return (word >> shift) & PS_REMOTE_MASK; }

static size_t total_of(uint64_t word) {
    return field(word, PS_REMOTE_LIST_SHIFT) + field(word, PS_REMOTE_GAPS_SHIFT);
}

/* Returns word with a new head and `blocks` more in the chain that starts at `shift`. */
static uint64_t with_batch(uint64_t word, unsigned shift, size_t head_index, size_t blocks) {
    word &= ~(PS_REMOTE_MASK << shift);
    word |= (uint64_t)(head_index + 1) << shift;
    return word + ((uint64_t)blocks << (shift + PS_REMOTE_BITS));
}

/* Aborts on a word with more blocks than the span has, before a field overflows. */
static void check_total(const struct ps_span *span, uint64_t word) {
    if (PS_UNLIKELY(total_of(word) > ps_span_capacity(span))) {
        ps_span_corrupt(span, PS_SPAN_TOO_MANY);
    }
}

/* Sets QUEUED when the total has reached the threshold, or the capacity: a fully free span is
 * always QUEUED. */
static uint64_t with_notice(const struct ps_span *span, uint64_t word) {
    size_t total = total_of(word);
    /* relaxed: may be stale, see span_remote.h. */
    bool is_due = total >= ps_load_relaxed(&span->x_notice_at) || total == ps_span_capacity(span);
    return is_due ? word | PS_REMOTE_QUEUED : word;
}

/* Derives the caller's duties from the swap of `before` to `after`. The span may no longer
 * exist. */
static unsigned handed(uint64_t before, uint64_t after, size_t capacity) {
    bool is_queued = (after & PS_REMOTE_QUEUED) != 0;
    unsigned wake = is_queued && (before & PS_REMOTE_QUEUED) == 0 ? PS_HANDED_NOTICE : 0;
    return wake | (is_queued && total_of(after) == capacity ? PS_HANDED_ALL : 0);
}

static inline unsigned hand_batch(struct ps_span *span, void *head, void *tail, size_t blocks) {
    size_t index = ps_span_index(span, head);
    size_t capacity = ps_span_capacity(span);
    for (;;) {
        uint64_t word = ps_load_relaxed(&span->x_remote); /* relaxed: the swap validates it */
        size_t old_head = field(word, LIST_HEAD_SHIFT);
        ps_link_write(tail,
                      old_head != 0 ? ps_span_block(span, old_head - 1) : ps_span_list_end(span),
                      ps_load_relaxed(&span->salt)); /* relaxed: the caller has a block of it */
        uint64_t wanted = with_notice(span, with_batch(word, LIST_HEAD_SHIFT, index, blocks));
        check_total(span, wanted);
        /* release: pairs with the acquire in ps_span_collect; makes the links visible, and all
         * accesses of the program to the blocks. */
        if (ps_cas_weak_acq_rel(&span->x_remote, &word, wanted)) {
            return handed(word, wanted, capacity);
        }
    }
}

unsigned ps_span_hand_list(struct ps_span *span, void *head, void *tail, size_t blocks) {
    return hand_batch(span, head, tail, blocks);
}

unsigned ps_span_hand_one(struct ps_span *span, void *block) {
    return hand_batch(span, block, block, 1);
}

unsigned ps_span_transfer_blocks(struct ps_span *span, char *lowest, size_t blocks) {
    size_t index = ps_span_index(span, lowest);
    size_t capacity = ps_span_capacity(span);
    struct ps_gap *gap = (struct ps_gap *)lowest;
    gap->blocks = (uint16_t)blocks;
    for (;;) {
        uint64_t word = ps_load_relaxed(&span->x_remote); /* relaxed: the swap validates it */
        gap->next = (uint16_t)field(word, GAP_HEAD_SHIFT);
        uint64_t wanted = with_notice(span, with_batch(word, GAP_HEAD_SHIFT, index, blocks));
        check_total(span, wanted);
        /* release: as in ps_span_hand_list. */
        if (ps_cas_weak_acq_rel(&span->x_remote, &word, wanted)) {
            return handed(word, wanted, capacity);
        }
    }
}

/* Empties both chains, clears DRAINED and preserves the other flags; returns the previous word. */
static uint64_t take_word(struct ps_span *span) {
    uint64_t word = ps_load_relaxed(&span->x_remote); /* relaxed: the swap below validates it */
    while (total_of(word) != 0 || (word & PS_REMOTE_DRAINED) != 0) {
        /* acquire: pairs with the release of the transfers; makes their links visible. */
        if (ps_cas_weak_acq_rel(&span->x_remote, &word,
                                word & (PS_REMOTE_QUEUED | PS_REMOTE_CLAIMED))) {
            return word;
        }
    }
    return 0;
}

/* Links the collected gaps, which are few and long, in front of the span's own. */
static void collect_gaps(struct ps_span *span, size_t head, size_t blocks) {
    size_t walked = 0;
    struct ps_gap *last = ps_span_gap(span, head);
    while (last->next != 0) { /* ends: the gaps have fewer blocks than the total */
        walked += last->blocks;
        if (PS_UNLIKELY(walked >= blocks)) {
            ps_span_corrupt(span, PS_SPAN_BAD_GAP);
        }
        last = ps_span_gap(span, last->next);
    }
    last->next = span->gap_head;
    span->gap_head = (uint16_t)head;
    span->gap_blocks = (uint16_t)(span->gap_blocks + blocks);
}

/* Handles a stash that is still in use: nothing can be collected then, but if all blocks that are
 * out have been returned, the lists no longer matter, because the span is drained. */
static size_t collect_last(struct ps_span *span) {
    size_t total = ps_span_remote_blocks(span);
    if (total == 0 || total != span->used || span->free_countdown != span->countdown_start) {
        return 0;
    }
    (void)take_word(span);
    ps_span_reset(span);
    return total;
}

size_t ps_span_collect(struct ps_span *span) {
    if (!ps_link_is_end(span->stash)) {
        return collect_last(span);
    }
    uint64_t word = take_word(span);
    if ((word & PS_REMOTE_DRAINED) != 0) {
        ps_span_reset(span);
        return ps_span_capacity(span);
    }
    size_t list_count = field(word, PS_REMOTE_LIST_SHIFT);
    size_t gap_blocks = field(word, PS_REMOTE_GAPS_SHIFT);
    if (list_count != 0) {
        span->stash = ps_span_block(span, field(word, LIST_HEAD_SHIFT) - 1);
        span->stash_count = (uint16_t)list_count;
    }
    if (gap_blocks != 0) {
        collect_gaps(span, field(word, GAP_HEAD_SHIFT), gap_blocks);
    }
    size_t total = list_count + gap_blocks;
    if (total != 0) {
        span->is_shared = 1;
        ps_store_relaxed(&span->used, (uint16_t)(span->used - total)); /* relaxed: census only */
        ps_span_settle(span);
    }
    return total;
}

bool ps_span_arm(struct ps_span *span, size_t blocks) {
    ps_store_relaxed(&span->x_notice_at, (uint16_t)blocks); /* relaxed: see span_remote.h */
    uint64_t word = ps_load_relaxed(&span->x_remote);       /* relaxed: as above */
    return (word & PS_REMOTE_QUEUED) != 0 || total_of(word) < blocks;
}

size_t ps_span_notice_blocks(const struct ps_span *span) {
    if (span->place == PS_PLACE_FULL) {
        return ps_span_worth_blocks(span);
    }
    size_t more = span->is_shared ? ps_span_out_blocks(span) / 2 : 0;
    return ps_span_remote_blocks(span) + more + 1;
}

/* Ends a claim that did not steal: the chains are lost, every block is free. */
static void end_claim(struct ps_span *span) {
    uint64_t word = ps_load_relaxed(&span->x_remote); /* relaxed: the swap below validates it */
    /* release: as in ps_span_clear_queued, although nothing was written. */
    while (!ps_cas_weak_release(&span->x_remote, &word, PS_REMOTE_QUEUED | PS_REMOTE_DRAINED)) {
    }
}

bool ps_span_steal(struct ps_span *span, uintptr_t owner_key) {
    uint64_t word = ps_load_relaxed(&span->x_remote); /* relaxed: the swap below validates it */
    bool is_back = total_of(word) == ps_span_capacity(span) || (word & PS_REMOTE_DRAINED) != 0;
    /* relaxed: a hint, read again below. acquire: pairs with the transfers; the blocks belong to
     * the caller now. */
    if (!is_back || ps_load_relaxed(&span->x_owner) != owner_key ||
        !ps_cas_weak_acq_rel(&span->x_remote, &word, PS_REMOTE_QUEUED | PS_REMOTE_CLAIMED)) {
        return false;
    }
    /* Read after the swap, because before it the owner may have attached the span again, or
     * orphaned it, so that another one has it now. acquire: pairs with ps_span_detach; line 0 is as
     * the owner left it, whose key is in it. */
    if (ps_load_acquire(&span->x_owner_detached) != 0 &&
        ps_load_relaxed(&span->x_owner) == owner_key) {
        ps_span_reset(span);
        ps_store_relaxed(&span->x_remote, (uint64_t)0); /* relaxed: no block of it is live */
        return true;
    }
    end_claim(span);
    return false;
}

bool ps_span_finish_steal(struct ps_span *span) {
    uint64_t word = ps_load_relaxed(&span->x_remote); /* relaxed, all: the only thread */
    bool is_claimed = (word & PS_REMOTE_CLAIMED) != 0;
    if (word != 0 && !(is_claimed && ps_load_relaxed(&span->x_owner_detached) != 0)) {
        if (is_claimed) {
            end_claim(span);
        }
        return false;
    }
    ps_span_reset(span); /* again, because the first reset may be incomplete */
    ps_store_relaxed(&span->x_remote, (uint64_t)0);
    return true;
}

void ps_span_detach(struct ps_span *span) {
    ps_store_release(&span->x_owner_detached, (uint8_t)1); /* release: pairs with ps_span_steal */
}

void ps_span_attach(struct ps_span *span) {
    /* relaxed: whatever makes the span stealable again follows in this thread, and is released by
     * the swap that clears QUEUED or by the transfer of a block. */
    ps_store_relaxed(&span->x_owner_detached, (uint8_t)0);
}

PS_COLD bool ps_span_queue(struct ps_span *span) {
    uint64_t word = ps_load_relaxed(&span->x_remote); /* relaxed: the swap below validates it */
    do { /* ends: each further round has blocks that were returned meanwhile */
        if ((word & (PS_REMOTE_QUEUED | PS_REMOTE_CLAIMED | PS_REMOTE_DRAINED)) != 0) {
            return false;
        }
        /* release: as of a transfer. */
    } while (!ps_cas_weak_release(&span->x_remote, &word, word | PS_REMOTE_QUEUED));
    return true;
}

void ps_span_clear_queued(struct ps_span *span) {
    uint64_t word = ps_load_relaxed(&span->x_remote); /* relaxed: the swap below validates it */
    /* release: pairs with ps_span_is_queued; orders our reads of x_notice_next before it. */
    while (!ps_cas_weak_release(&span->x_remote, &word, word & ~PS_REMOTE_QUEUED)) {
    }
}

void *ps_span_remote_list(const struct ps_span *span) {
    /* acquire: pairs with ps_span_hand_list; makes the links visible. */
    size_t head = field(ps_load_acquire(&span->x_remote), LIST_HEAD_SHIFT);
    return head != 0 ? ps_span_block(span, head - 1) : ps_span_list_end(span);
}

size_t ps_span_remote_blocks(const struct ps_span *span) {
    return total_of(ps_load_relaxed(&span->x_remote)); /* relaxed: a snapshot */
}

size_t ps_span_live_blocks(const struct ps_span *span) {
    /* relaxed, all: a snapshot. */
    size_t used = ps_load_relaxed(&span->used);
    size_t needed = ps_load_relaxed(&span->free_countdown);
    size_t armed = ps_load_relaxed(&span->countdown_start);
    size_t popped = ps_load_relaxed(&span->popped);
    size_t out = used + needed + popped;
    size_t back = armed + ps_span_remote_blocks(span) + ps_span_window_blocks(span);
    /* Its memory was purged because all blocks are back, and the owner has not collected them yet:
     * the returned blocks are no longer counted anywhere. */
    bool is_dropped =
        (ps_load_relaxed(&span->x_remote) & (PS_REMOTE_CLAIMED | PS_REMOTE_DRAINED)) != 0;
    return out > back && !is_dropped ? out - back : 0;
}
