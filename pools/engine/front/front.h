/* SPDX-License-Identifier: MIT */
/*
 * Fronts: freed blocks of each class, for the next requests of the class, whichever thread freed
 * them. A class is a size class, or a length of medium blocks in pages (page/medium.h).
 *
 * A front is a stack of addresses for each class. Each has a state word: the number of entries in
 * its lower 15 bits, HELD in the next, and above them the number of blocks that were taken so far.
 * A thread finds its front in one of three ways:
 *
 *   own        the first thread, until it creates another: a front that no other thread uses
 *   sequence   the front of the thread's concurrency id, by restartable sequences (os/rseq.h). The
 *              kernel gives the threads of a process that run at the same time different ids, the
 *              lowest first (mm_cid, Linux 6.3), so that there are as many fronts as threads ever
 *              ran at once. Older kernels: the number of the processor
 *   locked     without sequences: the front of the thread's number (number.h), whose class it holds
 *              while it pushes or pops. If it is held, the thread goes to the store
 *
 * A push or a pop takes effect by one store of the state, the last instruction of a sequence. So a
 * signal handler, a fork and a reader outside of the process find each state right.
 *
 * The limit of a class grows when the class is full: it doubles, up to the number of entries that
 * there is memory for, PS_FRONT_CLASS_BYTES of blocks at most, and PS_FRONT_BYTES in the whole
 * front; of medium blocks PS_FRONT_LENGTH_BYTES of a length, and PS_FRONT_MEDIUM_BYTES. All fronts
 * together have a budget: PS_FRONT_BUDGET_BYTES, PS_FRONT_MEDIUM_BUDGET_BYTES, or a quarter of the
 * memory in use if that is more. Blocks that were not used for a while, and those above a limit
 * that has fallen, return to the store, or to their regions (front_return.c).
 *
 * A small block in a front is marked in its first word (ps_mark_of). free() finds a block that is
 * marked already: it was freed twice. The pop finds one that is not: it was written to. Whatever
 * leaves a front, or the store, has another first word than the mark. A medium block is not
 * touched: its mark, apart from it, tells that it is free (page/medium.h). Nor are small blocks at
 * levels 2 and 3 of hardening, whose shadow bytes tell it (harden/hard.h).
 *
 * A thread that has not begun, or whose destructors have run, has ps_front_none for its own, which
 * takes no block and has none.
 *
 * Callers: heap/front_path.h, heap/front_path.c. Any thread, as above.
 */
#ifndef PS_FRONT_FRONT_H
#define PS_FRONT_FRONT_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/front/slab.h"
#include "pools/engine/os/rseq.h"
#include "pools/engine/page/medium.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_FRONTS 1024      /* ids beyond have none */
#define PS_FRONT_BLOCKS 256 /* of a class */
#define PS_FRONT_CLASS_BYTES ((size_t)64 << 10)
#define PS_FRONT_BYTES ((size_t)1 << 20)
#define PS_FRONT_BUDGET_BYTES ((size_t)2 << 20)
#define PS_FRONT_MEDIUM_BUDGET_BYTES ((size_t)8 << 20)
#define PS_FRONT_BUDGET_SHARE 4
#define PS_FRONT_LENGTH_BYTES ((size_t)512 << 10)
#define PS_FRONT_LENGTH_BLOCKS 16
#define PS_FRONT_MEDIUM_BYTES ((size_t)4 << 20)

/* The class of medium blocks of n pages is PS_FRONT_LENGTHS + n; of none there are no blocks. */
#define PS_FRONT_LENGTHS PS_CLASS_NONE
#define PS_FRONT_CLASSES (PS_FRONT_LENGTHS + 1 + (uint32_t)PS_MEDIUM_PAGES_LIMIT)

PS_INLINE bool ps_front_is_length(size_t class_index) { return class_index > PS_FRONT_LENGTHS; }

/* Loop over the classes that may have blocks: the longest ones in fronts of partitions only. */
#define PS_FRONT_EACH_CLASS(i)                                                                     \
    uint32_t i = 0;                                                                                \
    i < PS_FRONT_CLASSES;                                                                          \
    i = i + 1 == ps_size_class_all_count ? PS_FRONT_LENGTHS + 1 : i + 1

#define PS_FRONT_COUNT ((uint64_t)0x7fff)
#define PS_FRONT_HELD ((uint64_t)0x8000)
#define PS_FRONT_TAKES_SHIFT 16
/* Steps of the state; a pop is one take more and one block less. */
#define PS_FRONT_POPPED (((uint64_t)1 << PS_FRONT_TAKES_SHIFT) - 1)

/* In an entry: it is to be returned, and no pop takes it. See front_return.c. */
#define PS_FRONT_RESERVED (~(UINTPTR_MAX >> 1))

/* A bit for each class. */
struct ps_front_set {
    uint64_t words[(PS_FRONT_CLASSES + 63) / 64];
};

struct ps_front {
    PS_ALIGNED(PS_CACHE_LINE) uint64_t x_state[PS_FRONT_CLASSES];
    uint16_t x_limit[PS_FRONT_CLASSES]; /* most entries; 0 at first */
    uint64_t x_seen[PS_FRONT_CLASSES];  /* the state at the last return of unused blocks */
    uint32_t x_limit_bytes[2]; /* of all limits: the sum of their blocks' bytes; of medium ones */
    uint32_t moving;           /* class, plus 1, whose entries a return moves; 0: none */
    uint32_t table;            /* index of its own, ps_front_table_at; constant */
    struct ps_front_set held;  /* classes that a return has held; its thread's */
    PS_ALIGNED(PS_CACHE_LINE) void *x_entries[]; /* of the classes, one after the other */
};

/* The data that the fast path reads, at one address. */
struct ps_front_table {
    ptrdiff_t area; /* ps_rseq_offset */
    ptrdiff_t id;   /* from a thread's pointer to its id */
    bool has_sequences;
    struct ps_front_place { /* the entries of a class in a front */
        uint16_t first;
        uint16_t most; /* of them */
    } places[PS_FRONT_CLASSES];
    /* As in struct ps_size_class, by class, for ps_front_starts. */
    uint32_t factor[PS_CLASS_LIMIT];
    uint32_t scaled_first[PS_CLASS_LIMIT];
    uint32_t x_end;         /* of the ids that have fronts, or will have */
    struct ps_front *x_own; /* of the first thread, which alone uses it; NULL: it has none */
    struct ps_partition *partition; /* whose blocks are in its fronts; NULL: the plain heap's */
    uint32_t index;                 /* of ps_front_table_at */
    /* By id. NULL: not made. Last, so that few ids touch one page of a table. Read from outside the
     * process, as x_end and x_own are. All else is constant after the start. */
    struct ps_front *x_fronts[PS_FRONTS];
};
extern PS_HIDDEN struct ps_front_table ps_front_table;
extern PS_HIDDEN struct ps_front ps_front_none;

/*
 * Tables of partitions (partition.h) that have fronts: none until one asks for it, then for ever.
 * They differ from the first one by the fronts, which are made by the first refill of a thread, and
 * have no medium blocks. A thread whose front is its own has one of its own in each.
 */
#define PS_FRONT_APART 16
extern PS_HIDDEN struct ps_front_table ps_front_apart[PS_FRONT_APART];

/* The same for parts of the plain heap (partition.h), one for each; NULL: there are no parts. */
extern PS_HIDDEN struct ps_front_table *ps_front_parts;

/* The number of both, up to the last one in use. All are read from outside the process, too. */
extern PS_HIDDEN uint32_t ps_front_x_apart_end;

/* The table of the plain heap, then those of partitions; NULL after the last. */
struct ps_front_table *ps_front_table_at(size_t index);

/* A table for a partition; NULL: there are as many as can be. */
struct ps_front_table *ps_front_table_take(struct ps_partition *partition);

/* The same for a part of the plain heap, once for each; index: its own. */
struct ps_front_table *ps_front_table_of_part(struct ps_partition *part, size_t index);

/* The table as the fast path uses it: one register for its address, where the compiler would
 * materialise several. */
PS_INLINE struct ps_front_table *ps_front_table_base(void) {
    struct ps_front_table *table = &ps_front_table;
    PS_OPAQUE(table);
    return table;
}

/* Fronts of higher ids are made later, if at all. */
static inline size_t ps_front_end(void) {
    return ps_load_acquire(&ps_front_table.x_end); /* acquire: pairs with publish of front.c */
}

PS_INLINE bool ps_front_uses_sequences(void) {
    return PS_HAS_RSEQ && PS_LIKELY(ps_front_table.has_sequences);
}

/* Operands of the sequences of any processor. */
#define PS_FRONT_OFFSETS                                                                           \
    [area] "i"(offsetof(struct ps_front_table, area)),                                             \
        [id] "i"(offsetof(struct ps_front_table, id)), [fronts_count] "i"(PS_FRONTS),              \
        [places] "i"(offsetof(struct ps_front_table, places)),                                     \
        [entries] "i"(offsetof(struct ps_front, x_entries))

#include PS_ARCH_PART(front.h)

/* ---- a front of the calling thread's ---- */

PS_INLINE bool ps_front_push_own(struct ps_front *front, const struct ps_front_table *table,
                                 size_t class_index, void *block) {
    uint64_t state = front->x_state[class_index];
    size_t count = state & PS_FRONT_COUNT;
    if (PS_UNLIKELY(count >= front->x_limit[class_index])) {
        return false;
    }
    /* relaxed, here and below: one thread writes. */
    ps_store_relaxed(&front->x_entries[table->places[class_index].first + count], block);
    ps_store_relaxed(&front->x_state[class_index], state + 1); /* relaxed: one thread writes */
    return true;
}

PS_INLINE void *ps_front_pop_own(struct ps_front *front, const struct ps_front_table *table,
                                 size_t class_index) {
    uint64_t state = front->x_state[class_index];
    size_t count = state & PS_FRONT_COUNT;
    if (count == 0) {
        return NULL;
    }
    void **entry = &front->x_entries[table->places[class_index].first + count - 1];
    void *block = ps_load_relaxed(entry);
    __builtin_prefetch(ps_load_relaxed(entry - 1), 1); /* the next one that leaves; any address */
    ps_store_relaxed(&front->x_state[class_index], state + PS_FRONT_POPPED); /* relaxed: as above */
    return block;
}

/* ---- without sequences ---- */

/* False, NULL: there is no room or block, or another thread holds the class. The last two: in the
 * fronts of a table. */
bool ps_front_push_locked(size_t class_index, void *block);
void *ps_front_pop_locked(size_t class_index);
bool ps_front_push_locked_in(struct ps_front_table *table, size_t class_index, void *block);
void *ps_front_pop_locked_in(struct ps_front_table *table, size_t class_index);

/* A state that the calling thread holds in one of these, or is about to; NULL: none. */
extern PS_HIDDEN __thread uint64_t *ps_front_held __attribute__((tls_model("initial-exec")));

/* ---- for any thread, on slow paths ---- */

/* own: the calling thread's, or NULL. The block is marked. False: it has to go elsewhere. */
static inline bool ps_front_push(struct ps_front *own, size_t class_index, void *block) {
    if (own != NULL) {
        return ps_front_push_own(own, &ps_front_table, class_index, block);
    }
    return ps_front_uses_sequences() ? ps_front_push_here(&ps_front_table, class_index, block)
                                     : ps_front_push_locked(class_index, block);
}

/* NULL: there is none. */
static inline void *ps_front_pop(struct ps_front *own, size_t class_index) {
    if (own != NULL) {
        return ps_front_pop_own(own, &ps_front_table, class_index);
    }
    return ps_front_uses_sequences() ? ps_front_pop_here(&ps_front_table, class_index)
                                     : ps_front_pop_locked(class_index);
}

/* The same in the fronts of a partition. own: of ps_front_own_in. */
PS_INLINE bool ps_front_push_in(struct ps_front_table *table, struct ps_front *own,
                                size_t class_index, void *block) {
    if (own != NULL) {
        return ps_front_push_own(own, table, class_index, block);
    }
    return ps_front_uses_sequences() ? ps_front_push_here(table, class_index, block)
                                     : ps_front_push_locked_in(table, class_index, block);
}

PS_INLINE void *ps_front_pop_in(struct ps_front_table *table, struct ps_front *own,
                                size_t class_index) {
    if (own != NULL) {
        return ps_front_pop_own(own, table, class_index);
    }
    return ps_front_uses_sequences() ? ps_front_pop_here(table, class_index)
                                     : ps_front_pop_locked_in(table, class_index);
}

/* The calling thread's own front in a table. own: its own in the first one, or NULL. */
PS_INLINE struct ps_front *ps_front_own_in(const struct ps_front_table *table,
                                           struct ps_front *own) {
    if (PS_LIKELY(own == NULL || own == &ps_front_none)) {
        return own;
    }
    struct ps_front *front = ps_load_relaxed(&table->x_own); /* relaxed: the thread's */
    return front != NULL ? front : &ps_front_none;
}

/* ps_front_raise and ps_front_reset in a table; the former makes the thread's own front, too. */
bool ps_front_raise_in(struct ps_front_table *table, struct ps_front *own, size_t class_index);
static inline void ps_front_reset_in(const struct ps_front_table *table, const struct ps_front *own,
                                     size_t class_index) {
    if (own == NULL && ps_front_uses_sequences()) {
        ps_front_reset_here(table, class_index);
    }
}

/* Lets the thread's front have more blocks of a class, or makes the front. False: it has as many as
 * it may, or there is no front. */
bool ps_front_raise(struct ps_front *own, size_t class_index);

/* The length of a block of a class. */
size_t ps_front_block_bytes(size_t class_index);

/* The number of blocks of a class that leave a full front at once. */
size_t ps_front_batch(size_t class_index);

/* The thread's front at this moment, for hints; NULL: it has none. */
const struct ps_front *ps_front_here(const struct ps_front *own);

/* A front without blocks; NULL when memory is exhausted. */
struct ps_front *ps_front_make(void);

/* Makes the fronts of the first thread, in each table, those of its present id, if that has none;
 * else returns their blocks to the store. The calling thread's. own: that of the first table, whose
 * x_own remains. */
void ps_front_share(struct ps_front *own);

/* Returns the blocks of a front that is used no more, and counts its takes elsewhere. */
void ps_front_drop(struct ps_front *own);

/* Called once, with the engine. */
void ps_front_start(void);

/* The memory in use has changed. Any thread. */
void ps_front_set_budget(uint64_t used_bytes);

/* Bounds the budget, of both kinds together, from now on. Any thread. */
void ps_front_cap_budget(uint64_t bytes);

/* The sum of all limits' bytes, and their budget: of small blocks, of medium ones. Any thread adds;
 * hints. */
extern PS_HIDDEN struct ps_front_limits {
    uint64_t x_bytes;
    uint64_t x_most;
} ps_front_limits[2];

/* Before the start: the most medium bytes of a front, where memory is limited. */
void ps_front_bound_medium(size_t bytes);

/* ---- return of unused blocks: front_return.c ---- */

/* Returns the blocks of a front of the calling thread, and of its own fronts in other tables, that
 * it has not used since the last call, or all of them. */
void ps_front_return_own(struct ps_front *own, bool is_all);

/* The same for one front. */
void ps_front_return_one(struct ps_front *own, bool is_all);

/*
 * Returns what all fronts of ids have not used since the last round, or, if is_all, their blocks:
 * of each class all but the newest one, unless the calling thread is the only one that may use
 * fronts (is_alone). Sleeps for PS_FRONT_ANSWER_US twice if it is not, and there are such blocks.
 * One thread at a time; others return at once.
 */
#define PS_FRONT_ANSWER_US 1000
void ps_front_return_idle(bool is_all, bool is_alone);

/* After a pop without success: the newest entry may be NULL or reserved, as such a return leaves
 * them. Sets the number of entries to 0 then. */
static inline void ps_front_reset(const struct ps_front *own, size_t class_index) {
    if (own == NULL && ps_front_uses_sequences()) {
        ps_front_reset_here(&ps_front_table, class_index);
    }
}

/* Medium blocks that were taken from regions, less those that were taken from fronts to be
 * returned, since the start. Read from outside the process, too. */
extern PS_HIDDEN uint64_t ps_front_x_medium_singles;

/* Blocks of a class in fronts, and blocks that were taken from them: snapshots. */
size_t ps_front_blocks(uint32_t class_index);
uint64_t ps_front_takes(uint32_t class_index);

/* Calls `visit` for each block of a class in a front, while no other thread uses fronts. */
void ps_front_visit(uint32_t class_index, void (*visit)(uint32_t class_index, const void *block));

/* In the child of a fork, on its only thread, before ps_store_fork_child. own: its own front, or
 * NULL. */
void ps_front_fork_child(const struct ps_front *own);

#endif
