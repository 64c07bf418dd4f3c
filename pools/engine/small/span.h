/* SPDX-License-Identifier: MIT */
/*
 * Spans: runs cut into equal blocks, and the account of where every block is.
 *
 *   used + free_count + stash_count + run_blocks + (limit - carved) == limit - first
 *
 * holds whenever the account is settled (needed == armed, popped == 0). `used` counts the blocks
 * that left the span: in the bin's window, with the program, on x_remote, or in somebody's open hot
 * run. Freeing pushes a block on `free` and counts `needed` down, malloc pops one and counts
 * `popped` up; nothing else is written, and the rest of the account is settled when needed reaches
 * 0 or a slow path looks. Only a current span is popped from; so for all others needed reaches 0
 * when they drain.
 *
 * One owner (a heap, by its key) writes line 0 and grants blocks; any other thread hands blocks
 * back in batches through x_remote. A span never changes its class before it goes back to the page
 * cache. Callers: heap/, orphans.c. Locks: none here; the orphan lock stands in for the owner
 * while a span has none.
 */
#ifndef PS_SMALL_SPAN_H
#define PS_SMALL_SPAN_H

#include "pools/engine/base/check.h"
#include "pools/engine/page/page_map.h"
#include "pools/engine/small/link.h"
#include "pools/engine/small/size_class.h"

/*
 * Owner keys: 0 nobody (every slot that is no span), 1 a thread without a heap, 2 the orphan list;
 * above, the address of a heap, and in the low bits what its thread does with a freed block: 1, it
 * goes to its span at once; PS_KEY_LIFO + class index, to the heap's LIFO cache (lifo.c).
 */
#define PS_KEY_NOBODY ((uintptr_t)0)
#define PS_KEY_ORPHAN ((uintptr_t)2)
#define PS_KEY_AT_ONCE ((uintptr_t)1)
#define PS_KEY_LIFO ((uintptr_t)2)
#define PS_KEY_NO_SPAN ((uintptr_t)1 << 63) /* of no span, nor does one of a heap follow it */
#define PS_KEY_MASK ((uintptr_t)127)

_Static_assert(PS_KEY_LIFO + PS_CLASS_LIMIT <= PS_KEY_MASK, "a key tells every class");

/* Where the owner keeps a span. */
enum ps_span_place {
    PS_PLACE_CURRENT = 1, /* its bin takes from it; on no list */
    PS_PLACE_AVAILABLE,   /* has room, on the class's list */
    PS_PLACE_FULL,        /* had no room when last looked at; on no list: found by its frees */
};

struct ps_span {
    /* line 0: written by the owner only. owner is read by every free, needed and used by census. */
    PS_ALIGNED(PS_CACHE_LINE) uintptr_t x_owner; /*  0 key */
    uint16_t free_countdown;  /*  8 frees until the next event, never 0 at rest */
    uint16_t countdown_start; /* 10 value that needed started from */
    uint16_t used;            /* 12 blocks, see above */
    uint16_t carved;          /* 14 index: blocks from here on are virgin */
    void *stash;              /* 16 list collected from x_remote */
    void *free;               /* 24 list that free pushes on and malloc pops */
    uintptr_t salt;           /* 32 of its links: see link.h. Constant while blocks are out */
    uint32_t divisor;     /* 40 tells blocks from other addresses: see ps_span_is_aligned. Const */
    uint32_t handed;      /* 44 block that left the window last: low half of its address */
    uint16_t free_count;  /* 48 blocks on free, as of the last settling */
    uint16_t stash_count; /* 50 blocks on stash */
    uint16_t gap_head;    /* 52 index + 1 of the first free run, 0: none */
    uint16_t run_blocks;  /* 54 blocks in all free runs */
    uint16_t probe_interval; /* 56 frees between two looks for a sequence */
    uint8_t place;           /* 58 enum ps_span_place */
    uint8_t is_zero;         /* 59 virgin blocks read as zero */
    uint16_t popped;         /* 60 blocks that malloc took since settling */
    uint16_t window_blocks;  /* 62 blocks of the next window of virgin ones */

    /* line 1: x_ fields by any thread, the rest constant while the span lives. */
    uint64_t x_remote;             /*  64 see span_remote.h */
    struct ps_span *x_notice_next; /*  72 whoever set PS_REMOTE_QUEUED */
    uint32_t block_bytes;          /*  80 */
    uint16_t first;                /*  84 index of the first block used */
    uint16_t limit;                /*  86 index behind the last one */
    uint16_t x_notice_at;          /*  88 owner: blocks on x_remote that are worth a notice */
    uint8_t class_index;           /*  90 */
    uint8_t has_streaks;           /*  91 */
    uint8_t x_owner_detached;      /*  92 FULL, and the owner has let go: see ps_span_steal */
    uint8_t is_shared;             /*  93 owner: other threads' frees were collected from it */
    uint8_t guard;                 /*  94 which part of it cannot be accessed: see span_room.h */
    uint8_t room;                  /*  95 owner: eighths of it that the heap counts: room.c */
    struct ps_run run;             /*  96 page layer's */
};

_Static_assert(sizeof(struct ps_span) == PS_SLOT_BYTES, "a span is a slot");
_Static_assert(offsetof(struct ps_span, x_remote) == PS_CACHE_LINE, "shared words on line 1");
_Static_assert(offsetof(struct ps_span, run) == PS_TENANT_BYTES, "the run is the page layer's");

/* Frees between two events: streak_probe_interval of the class at first, doubled each time there
 * was no sequence, up to the limit, which also bounds how long a program that only goes round in
 * its current spans does without a look at the clock. */
#define PS_STREAK_PROBE_LIMIT 256

/* What stands in the first bytes of a run of free blocks. */
struct ps_gap {
    uint16_t next;   /* index + 1 of the next run's first block, 0: none */
    uint16_t blocks; /* length of this run */
};

PS_INLINE struct ps_span *ps_span_of_run(struct ps_run *run) {
    return PS_CONTAINER_OF(run, struct ps_span, run);
}
PS_INLINE struct ps_span *ps_span_of_slot(struct ps_slot *slot) { return (struct ps_span *)slot; }

/* The slot of an address, seen as a span: only x_owner and run may be read before it is known. */
PS_INLINE struct ps_span *ps_span_at(const void *address) {
    return (struct ps_span *)ps_page_map_slot(address);
}

/* The span that a block of a class lies in, whichever granule of it. slot: the block's. */
static inline struct ps_span *ps_span_of_inside(const struct ps_slot *slot, const void *block) {
    return ps_span_at((const char *)block - slot->run.back * PS_GRANULE_BYTES);
}

/* The span that a block lies in; NULL when it lies in none. slot: the block's. */
static inline struct ps_span *ps_span_holding(struct ps_slot *slot, const void *block) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: set before the block existed */
    if (PS_LIKELY(kind == PS_RUN_SPAN)) {
        return ps_span_of_slot(slot);
    }
    return kind == PS_RUN_INSIDE ? ps_span_of_inside(slot, block) : NULL;
}

/* What ends the lists of a span: no block, but within their reach. */
static inline void *ps_span_list_end(const struct ps_span *span) { return span->run.base + 1; }

static inline char *ps_span_block(const struct ps_span *span, size_t index) {
    return span->run.base + index * span->block_bytes;
}

static inline size_t ps_span_index(const struct ps_span *span, const void *block) {
    return (uint32_t)((const char *)block - span->run.base) / span->block_bytes;
}

/*
 * True when an address in a span of one granule is a multiple of the block size away from its
 * start, so neither inside of a block nor beside one. A product of the offset with ceil(2^32 /
 * size) that is smaller than that factor (Lemire, Kaser, Kurz: Faster remainder by direct
 * computation) costs four instructions where a division costs twenty cycles.
 */
PS_INLINE bool ps_span_is_aligned(const struct ps_span *span, const void *block) {
    return (uint32_t)((uint16_t)(uintptr_t)block * span->divisor) < span->divisor;
}

/* True when an address within any span is where one of its blocks starts. */
static inline bool ps_span_has_block(const struct ps_span *span, const void *address) {
    uint32_t offset = (uint32_t)((const char *)address - span->run.base);
    uint32_t index = offset / span->block_bytes;
    return offset == index * span->block_bytes && index >= span->first && index < span->limit;
}

static inline size_t ps_span_capacity(const struct ps_span *span) {
    return (size_t)(span->limit - span->first);
}

/* Blocks that have come back to a full span when it is worth a look. */
static inline size_t ps_span_worth_blocks(const struct ps_span *span) {
    size_t usual = ps_size_classes[span->class_index].notice_blocks;
    size_t capacity = ps_span_capacity(span);
    return usual < capacity ? usual : 1 + capacity / 8; /* a sparse span has few */
}

/* Has blocks to grant without collecting. */
static inline bool ps_span_has_room(const struct ps_span *span) {
    return !ps_link_is_end(span->free) || !ps_link_is_end(span->stash) || span->gap_head != 0 ||
           span->carved < span->limit;
}

/*
 * A fresh span of a class for the owner with this key, place CURRENT; a dense one will soon be
 * filled, of a sparse one few pages are accessible, where blocks are hardened: see span_room.h.
 * NULL when memory is out.
 */
struct ps_span *ps_span_create(uint32_t class_index, uintptr_t owner_key);
struct ps_span *ps_span_create_dense(uint32_t class_index, uintptr_t owner_key);
struct ps_span *ps_span_create_sparse(uint32_t class_index, uintptr_t owner_key);

/* Makes key the owner. The inside slots of a class with LIFO cache tell it too, so that free
 * need not find the head. Release: whoever reads the key finds the account as it is now. */
void ps_span_set_owner(struct ps_span *span, uintptr_t key);

/* Gives the memory of a drained span (used == 0, nothing queued) back to the page cache. */
void ps_span_destroy(struct ps_span *span);

/* Makes every block virgin again; used == 0. No block is touched. */
void ps_span_reset(struct ps_span *span);

/* Makes every block used, of a span whose account was lost: what others hand back keeps its links.
 */
void ps_span_reset_used(struct ps_span *span);

/* Books frees and pops since the last settling and arms the next event: after `interval` frees, or
 * earlier when a span that is not current may be drained or worth a look by then. */
void ps_span_settle(struct ps_span *span);

/* Makes a list of adjacent blocks that are on none, upwards; aborts when one of them is. */
void ps_span_link_blocks(const struct ps_span *span, char *lowest, size_t blocks);

/* Takes `blocks` adjacent free blocks, counted as used so far, back into the account. */
void ps_span_return_blocks(struct ps_span *span, char *lowest, size_t blocks);

enum ps_span_guard { PS_GUARD_NONE = 0, PS_GUARD_END, PS_GUARD_SPARSE };

static inline bool ps_span_is_sparse(const struct ps_span *span) {
    return span->guard == PS_GUARD_SPARSE;
}

/* True when a link leads where a list of the span may lead: to a block, or to the end. */
static inline bool ps_span_leads_to(const struct ps_span *span, const void *link) {
    bool is_inside = (uintptr_t)link - (uintptr_t)span->run.base < (uintptr_t)span->run.granules
                                                                       << PS_GRANULE_SHIFT;
    return link == ps_span_list_end(span) || (is_inside && ps_span_has_block(span, link));
}

/* True when a block is on a list of its span, or on its way to one: see link.h. */
static inline bool ps_span_is_listed(const struct ps_span *span, const void *block) {
    /* relaxed: constant while the block is out, which it is said to be. */
    return ps_span_leads_to(span, ps_link_of(block, ps_load_relaxed(&span->salt)));
}

/* True when a block lies behind all that have left the window since the span was reset: it was
 * never handed out. Not known of classes with LIFO cache, whose windows lead past the span. */
static inline bool ps_span_is_unhanded(const struct ps_span *span, const void *block) {
    /* relaxed: who was handed a block was handed what was written before it left. */
    return (int32_t)((uint32_t)(uintptr_t)block - ps_load_relaxed(&span->handed)) > 0;
}

/* The run of free blocks whose first has this index + 1; aborts when it cannot be one. */
struct ps_gap *ps_span_gap(const struct ps_span *span, size_t head);

/* Takes a list of free blocks, linked with the span's salt and counted as used so far, back. tail
 * is its last block. */
void ps_span_give_list(struct ps_span *span, void *head, void *tail, size_t blocks);

#define PS_SPAN_TOO_MANY "double free: more blocks came back than are out, of the span at"
#define PS_SPAN_TWICE "double free of"
#define PS_SPAN_BAD_GAP "write after free: a run of free blocks is not one, in the span at"

/* The account cannot be: blocks were freed twice, or written to after they were freed. */
PS_NORETURN void ps_span_corrupt(const struct ps_span *span, const char *what);

/* Checked builds: asserts the equation above. */
void ps_span_check(const struct ps_span *span);

#endif
