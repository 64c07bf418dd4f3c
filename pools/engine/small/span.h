/* SPDX-License-Identifier: MIT */
/*
 * Spans: runs cut into equal blocks, and the account that gives the state of each block.
 *
 *   used + free_count + stash_count + gap_blocks + (limit - carved) == limit - first
 *
 * is true whenever the account is settled (free_countdown == countdown_start, popped == 0). `used`
 * counts the blocks that left the span: in the bin's window, allocated, on x_remote, or in an open
 * free streak. A free pushes a block on `free` and decrements `free_countdown`; malloc pops one and
 * increments `popped`. Neither writes anything else; the rest of the account is settled when
 * free_countdown reaches 0 or a slow path needs it. Only current spans are popped from, so
 * free_countdown of all others reaches 0 when they drain.
 *
 * One owner (a heap, named by its key) writes line 0 and grants blocks; other threads return blocks
 * in batches through x_remote. The class of a span is constant until it returns to the page cache.
 * Callers: heap/, orphans.c. Locks: none here; the orphan lock replaces the owner while a span has
 * none.
 */
#ifndef PS_SMALL_SPAN_H
#define PS_SMALL_SPAN_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/page/page_map.h"
#include "pools/engine/small/link.h"
#include "pools/engine/small/size_class.h"

/*
 * Owner keys. 0: none (every slot that is not a span). 1: a thread without a heap. 6: the orphans.
 * Above: the address of a heap, with the owner's way to free in the low bits: 1, the fast path; 2,
 * the slow path, of a span of several granules.
 */
#define PS_KEY_NONE ((uintptr_t)0)
#define PS_KEY_ORPHAN ((uintptr_t)6)
#define PS_KEY_AT_ONCE ((uintptr_t)1)
#define PS_KEY_SLOW ((uintptr_t)2)
#define PS_KEY_NO_SPAN ((uintptr_t)1 << 63) /* matches no span's owner, nor any heap's address */
#define PS_KEY_CHECKED (~(uintptr_t)0)      /* likewise: the mode serves each free of the thread */
#define PS_KEY_MASK ((uintptr_t)3)

/* The list of a span, or the reason for none. */
enum ps_span_place {
    PS_PLACE_CURRENT = 1, /* the bin allocates from it; on no list */
    PS_PLACE_AVAILABLE,   /* has room, on the class's list */
    PS_PLACE_FULL,        /* had no room when last settled; on no list: found by its frees */
    PS_PLACE_PURGING,     /* orphan: a thread purges its free pages; on no list */
    PS_PLACE_PURGED,      /* orphan: has room, and no resident page of free blocks only */
};

struct ps_span {
    /* line 0: written by the owner only. Every free reads x_owner; census reads the counts. */
    PS_ALIGNED(PS_CACHE_LINE) uintptr_t x_owner; /*  0 key */
    uint16_t free_countdown;  /* 8 frees until the next settling, never 0 at rest */
    uint16_t countdown_start; /* 10 start value of free_countdown */
    uint16_t used;            /* 12 blocks, see above */
    uint16_t carved;          /* 14 index: blocks from here on are fresh */
    void *stash;              /* 16 list collected from x_remote */
    void *free;               /* 24 list that free pushes on and malloc pops */
    uintptr_t salt;           /* 32 of its links: see link.h. Constant while blocks are out */
    uint32_t factor;      /* 40 makes the index of a block of its address: ps_span_scaled. Const */
    uint32_t handed;      /* 44 scaled index of the next block to leave a window: as above */
    uint16_t free_count;  /* 48 blocks on free, as of the last settling */
    uint16_t stash_count; /* 50 blocks on stash */
    uint16_t gap_head;    /* 52 index + 1 of the first gap, 0: none */
    uint16_t gap_blocks;  /* 54 blocks in all gaps */
    uint16_t probe_interval; /* 56 frees between two probes for a streak */
    uint8_t place;           /* 58 enum ps_span_place */
    uint8_t is_zero;         /* 59 fresh blocks read as zero */
    uint16_t popped;         /* 60 blocks that malloc took since settling */
    uint16_t window_blocks;  /* 62 blocks of the next window of fresh ones */

    /* line 1: x_ fields are written by any thread; the rest is constant while the span lives. */
    uint64_t x_remote;             /*  64 see span_remote.h */
    struct ps_span *x_notice_next; /* 72 thread that set PS_REMOTE_QUEUED */
    uint32_t block_bytes;          /*  80 */
    uint16_t first;                /* 84 index of the first usable block */
    uint16_t limit;                /* 86 index after the last usable block */
    uint16_t x_notice_at;          /* 88 owner: threshold of blocks on x_remote for a notice */
    uint8_t class_index;           /*  90 */
    uint8_t has_streaks;           /*  91 */
    uint8_t x_owner_detached;      /* 92 FULL and detached by the owner: see ps_span_steal */
    uint8_t is_shared;             /* 93 owner: remote frees have been collected from it */
    uint8_t guard : 4;             /* 94 inaccessible part: see below */
    uint8_t lent_at : 4;           /* 94 place in the region that lent it, or 0: page/medium.h */
    uint8_t room; /* 95 owner: eighths of it counted by the heap, room.c; without one: the epoch
                   * since which it is an orphan with room, orphans.c */
    struct ps_run run; /* 96 of the page layer */
};

_Static_assert(sizeof(struct ps_span) == PS_SLOT_BYTES, "a span is a slot");
_Static_assert(offsetof(struct ps_span, x_remote) == PS_CACHE_LINE, "shared words on line 1");
_Static_assert(offsetof(struct ps_span, run) == PS_TENANT_BYTES, "the run is the page layer's");

/* Limit of probe_interval, which starts at streak_probe_interval of the class and doubles after
 * each probe that found no sequence. The limit also bounds the number of frees between two readings
 * of the clock in a program that never leaves its current spans. */
#define PS_STREAK_PROBE_LIMIT 256

/* Stored in the first bytes of a gap. */
struct ps_gap {
    uint16_t next;   /* index + 1 of the next gap's first block, 0: none */
    uint16_t blocks; /* length of this gap */
};

PS_INLINE struct ps_span *ps_span_of_run(struct ps_run *run) {
    return PS_CONTAINER_OF(run, struct ps_span, run);
}
PS_INLINE struct ps_span *ps_span_of_slot(struct ps_slot *slot) { return (struct ps_span *)slot; }

/* The slot of an address, as a span: read only x_owner and run before its kind is known. */
PS_INLINE struct ps_span *ps_span_at(const void *address) {
    return (struct ps_span *)ps_page_map_slot(address);
}

/* The span of a block, from any of its granules. slot: the block's. */
static inline struct ps_span *ps_span_of_inside(const struct ps_slot *slot, const void *block) {
    return ps_span_at((const char *)block - slot->run.back * PS_GRANULE_BYTES);
}

/* The span of a block; NULL when the address lies in none. slot: the block's. */
static inline struct ps_span *ps_span_holding(struct ps_slot *slot, const void *block) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: set before the block existed */
    if (PS_LIKELY(kind == PS_RUN_SPAN)) {
        return ps_span_of_slot(slot);
    }
    return kind == PS_RUN_INSIDE ? ps_span_of_inside(slot, block) : NULL;
}

/* End of the lists of a span: not a block, but near them (link.h). */
static inline void *ps_span_list_end(const struct ps_span *span) { return span->run.base + 1; }

static inline char *ps_span_block(const struct ps_span *span, size_t index) {
    return span->run.base + index * span->block_bytes;
}

/*
 * The index of a block in a span of one granule, PS_SCALED_ONE for each; more than that of any
 * block for an address inside of one. So one comparison tells whether an address is that of a block
 * below some other, for two instructions, where a division costs twenty cycles.
 *
 * With size = odd << shift, the factor is (m * 2^32 + 2^15) / size for an odd m that has no divisor
 * in common with the size. The product of it and an offset that is index * size is then index *
 * 2^15 modulo 2^32, less than 2^31 / size; of one that leaves a rest, it is 2^32 / size at least,
 * since rest * m is no multiple of the size. (After Lemire, Kaser, Kurz: Faster remainder by direct
 * computation, whose product says only whether there is a rest.) Of longer spans the factor is 0.
 */
#define PS_SCALED_ONE ((uint32_t)1 << PS_SCALED_SHIFT)

PS_INLINE uint32_t ps_span_scaled(const struct ps_span *span, const void *block) {
    return (uint16_t)(uintptr_t)block * span->factor;
}

static inline size_t ps_span_index(const struct ps_span *span, const void *block) {
    return span->factor != 0 ? ps_span_scaled(span, block) >> PS_SCALED_SHIFT
                             : (uint32_t)((const char *)block - span->run.base) / span->block_bytes;
}

/* True when an address in a span of one granule is that of a block that has left a window since the
 * span was reset. */
PS_INLINE bool ps_span_has_handed(const struct ps_span *span, const void *block) {
    return ps_span_scaled(span, block) < span->handed;
}

/* True when an address within any span is the start of one of its blocks. */
static inline bool ps_span_has_block(const struct ps_span *span, const void *address) {
    if (PS_LIKELY(span->factor != 0)) {
        uint32_t first = (uint32_t)span->first << PS_SCALED_SHIFT;
        uint32_t limit = (uint32_t)span->limit << PS_SCALED_SHIFT;
        return ps_span_scaled(span, address) - first < limit - first;
    }
    uint32_t offset = (uint32_t)((const char *)address - span->run.base);
    uint32_t index = offset / span->block_bytes;
    return offset == index * span->block_bytes && index >= span->first && index < span->limit;
}

static inline size_t ps_span_capacity(const struct ps_span *span) {
    return (size_t)(span->limit - span->first);
}

/* Owner: blocks that came to its list since the account was settled, less those that left it. */
static inline int ps_span_unsettled_blocks(const struct ps_span *span) {
    return span->countdown_start - span->free_countdown - span->popped;
}

/* Number of freed blocks at which a full span is worth collecting. */
static inline size_t ps_span_worth_blocks(const struct ps_span *span) {
    size_t usual = ps_size_classes[span->class_index].notice_blocks;
    size_t capacity = ps_span_capacity(span);
    return usual < capacity ? usual : 1 + capacity / 8; /* a sparse span has few blocks */
}

/* True when it has blocks to grant without collecting. */
static inline bool ps_span_has_room(const struct ps_span *span) {
    return !ps_link_is_end(span->free) || !ps_link_is_end(span->stash) || span->gap_head != 0 ||
           span->carved < span->limit;
}

/*
 * Creates a span of a class for owner_key, with place CURRENT. Clean: for a class that may not fill
 * it. Dense: for a class that fills its spans soon. Sparse: with few accessible pages, at hardening
 * level 2 and above: see ps_span_open. NULL when memory is exhausted.
 */
struct ps_span *ps_span_create(uint32_t class_index, uintptr_t owner_key);
struct ps_span *ps_span_create_clean(uint32_t class_index, uintptr_t owner_key);
struct ps_span *ps_span_create_dense(uint32_t class_index, uintptr_t owner_key);
struct ps_span *ps_span_create_sparse(uint32_t class_index, uintptr_t owner_key);

/* Creates one in granules of a region of medium blocks: for when the page cache has no memory. */
struct ps_span *ps_span_create_lent(uint32_t class_index, uintptr_t owner_key);

/* Makes key the owner. Release: a thread that reads the key sees the present account. */
void ps_span_set_owner(struct ps_span *span, uintptr_t key);

/* Returns the memory of a drained span (used == 0, not queued) to the page cache, or to the region
 * that has lent it. */
void ps_span_destroy(struct ps_span *span);

/* Makes every block fresh again. Precondition: used == 0. Touches no block. */
void ps_span_reset(struct ps_span *span);

/* Makes every block used, for a span whose account was lost. Preserves the salt, so that the links
 * of blocks returned by other threads remain valid. */
void ps_span_reset_used(struct ps_span *span);

/* Settles the account: counts the frees and pops since the last time, and restarts the countdown:
 * probe_interval frees, or fewer when a span that is not current may be drained or worth collecting
 * earlier. */
void ps_span_settle(struct ps_span *span);

/* Links adjacent blocks that are on no list, in ascending order; aborts when one of them is on a
 * list. */
void ps_span_link_blocks(const struct ps_span *span, char *lowest, size_t blocks);

/* Returns `blocks` adjacent blocks, counted as used so far, to the account. */
void ps_span_return_blocks(struct ps_span *span, char *lowest, size_t blocks);

enum ps_span_guard { PS_GUARD_NONE = 0, PS_GUARD_END, PS_GUARD_SPARSE };

static inline bool ps_span_is_sparse(const struct ps_span *span) {
    return span->guard == PS_GUARD_SPARSE;
}

/* True when a link is valid for a list of the span: a block, or the end. */
static inline bool ps_span_leads_to(const struct ps_span *span, const void *link) {
    bool is_inside = (uintptr_t)link - (uintptr_t)span->run.base < (uintptr_t)span->run.granules
                                                                       << PS_GRANULE_SHIFT;
    return link == ps_span_list_end(span) || (is_inside && ps_span_has_block(span, link));
}

/* True when a block is on a list of its span, or in a batch for one: see link.h. */
static inline bool ps_span_is_listed(const struct ps_span *span, const void *block) {
    /* relaxed: constant while the block is out, as the caller claims. */
    return ps_span_leads_to(span, ps_link_of(block, ps_load_relaxed(&span->salt)));
}

/* True when a block lies after all that have left the window since the span was reset: it was never
 * handed out. */
static inline size_t ps_span_handed_index(const struct ps_span *span) {
    /* relaxed: written before the block was handed out to its thread. */
    return ps_load_relaxed(&span->handed) >> PS_SCALED_SHIFT;
}
static inline bool ps_span_is_unhanded(const struct ps_span *span, const void *block) {
    return ps_span_index(span, block) >= ps_span_handed_index(span);
}

/* The gap whose first block has index head - 1; aborts when it is not valid. */
struct ps_gap *ps_span_gap(const struct ps_span *span, size_t head);

/* The first word of a block that is to return, alone, to its span. */
PS_INLINE uintptr_t ps_span_waiting_link(const struct ps_span *span) {
    /* relaxed: constant while a block is out. */
    return ps_link_stored(ps_span_list_end(span), ps_load_relaxed(&span->salt));
}

/* Aborts unless a block, alone or as the tail of a batch, still has the link of one that is to
 * return to its span. If another thread had it on a list too, and it has been allocated since, the
 * write of its new owner has destroyed the link. */
static inline void ps_span_check_waiting(const struct ps_span *span, const void *block) {
    uintptr_t salt = ps_load_relaxed(&span->salt); /* relaxed: we have a block of the span */
    if (PS_UNLIKELY(ps_link_of(block, salt) != ps_span_list_end(span))) {
        ps_misuse_link(block, span->block_bytes);
    }
}

/* Returns a list of blocks, linked with the span's salt and counted as used so far. tail is its
 * last block. */
void ps_span_give_list(struct ps_span *span, void *head, void *tail, size_t blocks);

#define PS_SPAN_TOO_MANY "double free: more blocks came back than are out, of the span at"
#define PS_SPAN_TWICE "double free of"
#define PS_SPAN_BAD_GAP "write after free: a run of free blocks is not one, in the span at"

/* Reports an impossible account: blocks were freed twice, or written to after they were freed. */
PS_NORETURN void ps_span_corrupt(const struct ps_span *span, const char *what);

/* Checked builds: asserts the equation at the top of this file. */
void ps_span_check(const struct ps_span *span);

/* ---- lists of spans ---- */

/*
 * Circular through prev, terminated by NULL through next, so that one pointer gives
 * head and tail. A span is on at most one list. No locks: the owner of the list serialises access.
 */

/* The last span of a non-empty list. */
static inline struct ps_span *ps_span_list_tail(const struct ps_span *head) {
    return ps_span_of_run(head->run.prev);
}

/* The next span of a list, NULL after the last. */
static inline struct ps_span *ps_span_list_next(const struct ps_span *span) {
    return span->run.next != NULL ? ps_span_of_run(span->run.next) : NULL;
}

static inline void ps_span_list_push_tail(struct ps_span **head, struct ps_span *span) {
    struct ps_run *run = &span->run;
    run->next = NULL;
    if (*head == NULL) {
        run->prev = run;
        *head = span;
        return;
    }
    struct ps_run *first = &(*head)->run;
    run->prev = first->prev;
    run->prev->next = run;
    first->prev = run;
}

static inline void ps_span_list_push_head(struct ps_span **head, struct ps_span *span) {
    struct ps_span *old = *head;
    if (old == NULL) {
        ps_span_list_push_tail(head, span);
        return;
    }
    span->run.next = &old->run;
    span->run.prev = old->run.prev;
    old->run.prev = &span->run;
    *head = span;
}

static inline void ps_span_list_remove(struct ps_span **head, struct ps_span *span) {
    struct ps_run *run = &span->run;
    if (*head == span) {
        *head = ps_span_list_next(span);
    } else {
        run->prev->next = run->next;
    }
    if (run->next != NULL) {
        run->next->prev = run->prev;
    } else if (*head != NULL) {
        (*head)->run.prev = run->prev;
    }
    run->prev = NULL;
    run->next = NULL;
}

/* ---- usable addresses (span_room.c) ---- */

/*
 * Without hardening: all. At levels 2 and 3 (harden/hard.h) the last page is inaccessible, and a
 * sparse span has only one or two accessible pages, at a random place. So an access one page, or a
 * multiple of a granule, away from a block usually faults.
 */

/* Sets first and limit of a fresh span, and makes its blocks accessible. Returns false when the
 * system refuses. */
bool ps_span_open(struct ps_span *span, bool is_sparse);

/* Called before the run returns to the page cache. Leaves accessible the pages that are accessible
 * in a usual span. */
void ps_span_shut(const struct ps_span *span);

#endif
