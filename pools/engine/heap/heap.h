/* SPDX-License-Identifier: MIT */
/*
 * A heap: the state of one thread. A bin per size class has the blocks for the next mallocs; all
 * other fields are for slow paths. A thread that frees no other thread's blocks touches the first 4
 * KiB, and 512 bytes for each class above 1 KiB that it uses. Medium blocks take 128 bytes, and 64
 * for each length. Only the owning thread accesses its heap, except for fields marked x_; if that
 * thread makes no calls, a thread that has taken the heap does (thread.h).
 *
 * The interface for callers is fast_path.h (small blocks) and slow_path.h; the other headers are
 * internal to the layer, one per source. Locks: the registry's, for the fields that say so.
 */
#ifndef PS_HEAP_HEAP_H
#define PS_HEAP_HEAP_H

#include "pools/engine/base/config.h"
#include "pools/engine/small/size_class.h"
#include "pools/engine/small/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The source of malloc for a class when the current span's list is empty: the window, a range of
 * untouched blocks of that span. */
struct ps_bin {
    uint32_t block_bytes; /*  0 */
    uint16_t is_zero;     /*  4 the window's blocks read as zero */
    uint16_t x_rounding;  /*  6 share of a block that requests leave unused, of 65536: the mean of
                           * the last ones that found the bin empty; owner writes */
    char *cur;            /*  8 window: next block */
    char *end;            /* 16 window: after the last block; == cur when empty */
    uint64_t x_taken;     /* 24 blocks that malloc took, with those in the window, without the pops
                           * since the span was settled; owner writes */
};

_Static_assert(sizeof(struct ps_bin) == 32, "a power of two is found in fewer instructions");

/* Number of blocks in the window of a class's bin. */
static inline size_t ps_bin_window_blocks(const struct ps_bin *bin) {
    return (size_t)(bin->end - bin->cur) / bin->block_bytes;
}

extern PS_HIDDEN struct ps_span ps_span_none;

#define PS_BIN_LIMIT (PS_CLASS_NONE + 1) /* one per class, and one that is always empty */
#define PS_REMOTE_ENTRIES 64
#define PS_REMOTE_SINGLES 64

/* Frees of another owner's blocks, collected per span until a batch is worth an atomic transfer. */
struct ps_remote_entry {
    struct ps_span *span; /* NULL: empty */
    void *head;
    void *tail;
    uint16_t count;
    uint16_t limit;     /* blocks that make a batch */
    uint32_t contender; /* low half of the span of the last single block: see remote.c */
};

enum ps_heap_state {
    PS_HEAP_LIVE = 0, /* attached to a running thread */
    PS_HEAP_PARKED,   /* its thread has ended; reusable once it owns no span */
    PS_HEAP_SHARED,   /* belongs to no thread: detached.c */
    PS_HEAP_DEAD,     /* its thread does not exist in this child of a fork */
    PS_HEAP_HELD,     /* taken from its thread, and being cleared: thread.h */
    PS_HEAP_IDLE,     /* taken, and partly cleared: any thread may continue */
};

/* State of guarded sampling (guard.h); all zero before the first count. Owner only. */
struct ps_guard_sampler {
    int64_t left;    /* allocations until the next sample; below 1: due */
    uint64_t random; /* xorshift state, 0 before the first draw */
};

struct ps_heap {
    /*    0 whose list the next malloc of a class pops; ps_span_none, which has nothing, where there
     * is none. Apart from the bins: a hit needs no more of them, and finds it by one load. */
    struct ps_span *current[PS_BIN_LIMIT];
    struct ps_bin bins[PS_BIN_LIMIT];        /*  512 */
    struct ps_span *available[PS_BIN_LIMIT]; /* 2560 spans with room */
    struct ps_span *streak_span;             /* 3072 span of this thread's free streak, or NULL */
    char *streak_first;                      /* 3080 block that opened it */
    uint32_t surplus_countdown;              /* 3088 readings until the bound is checked */
    uint32_t tick_countdown;                 /* 3092 slow calls until the clock is read */
    uint64_t next_scan_ms;                   /* 3096 */
    uint64_t x_remote_frees;                 /* 3104 owner writes, census reads */
    uint64_t x_remote_batches;               /* 3112 as above */
    struct ps_heap *next_heap;               /* 3120 all heaps created; registry lock */
    struct ps_heap *next_parked;             /* 3128 parked heaps without spans; registry lock */
    uintptr_t x_thread_pointer;              /* 3136 of the owning thread */
    uint32_t x_spans[PS_BIN_LIMIT];          /* 3144 spans of each class that this heap owns */
    uint64_t x_active_ms;                    /* 3400 time of the owner's last clock reading */
    union {
        void *mode_state;       /* 3408 the mode's own data of the heap: mode.h */
        struct ps_hard *hard;   /* hardened: the quarantine; NULL: none */
        struct ps_tally *tally; /* recorded: see record.h */
    };
    bool is_offered;               /* 3416 on the list of parked heaps; registry lock */
    bool is_exhausted;             /* 3417 refills take no fresh memory: see exhausted.c */
    bool has_collected;            /* 3418 within a call: so are these three */
    uint8_t collect_wait;          /* 3419 */
    uint8_t collect_pause;         /* 3420 */
    struct ps_guard_sampler guard; /* 3424 */
    /* Written by other threads, or rarely. */
    PS_ALIGNED(PS_CACHE_LINE) struct ps_span *x_notices; /* 3456 spans with a reclaim notice */
    struct ps_span *x_notices_rest; /* 3464 rest of an earlier list; any thread may clear it */
    uint32_t x_back;                /* 3472 fully free spans since the last notices */
    uint32_t x_state; /* 3476 enum ps_heap_state; registry lock; frees of other threads read it */
    PS_ALIGNED(PS_CACHE_LINE) uint32_t room[PS_BIN_LIMIT]; /* 3520 free eighths of spans: room.c */
    struct ps_thread_words *x_thread; /* 3776 of its thread, for thread.c; NULL: cannot be taken */
    uint64_t asked_us;                /* 3784 registry lock, like all fields below: see thread.c */
    char *streak_next;                /* 3792 of the open streak, when it was stopped */
    ptrdiff_t streak_step;            /* 3800 likewise */
    bool is_asked;                    /* 3808 */
    uint32_t holder;                  /* 3812 lock id of the thread that took or adopts it */
    struct ps_thread_record *record;  /* 3816 of that thread; NULL: it has none; registry lock */
    PS_ALIGNED(4096) struct ps_remote_entry remote[PS_REMOTE_ENTRIES]; /* 4096 see remote.c */
    void *singles[PS_REMOTE_SINGLES];                                  /* 6144 */
    uint32_t singles_count;                                            /* 6656 */
};

_Static_assert(offsetof(struct ps_heap, remote) == 4096, "the first page is all that most need");
_Static_assert(sizeof(struct ps_heap) == 8192, "pools/README.md says so");

/*
 * The thread's own words, initial-exec TLS. Initially there is no heap, and free(NULL) matches the
 * free streak of step 0 at address 0. Start-up relies on the order of the fields: see detached.h.
 *
 * A free streak is a sequence of frees of adjacent blocks of one span, upwards or downwards, with
 * any owner. Each free costs a compare and an add, and touches neither the block nor the span. A
 * streak opens when an event finds three frees in sequence, and its blocks are returned when it
 * ends.
 */
struct ps_thread_words {
    uintptr_t key;         /* 0 of spans that free pushes to: ps_heap_key(own), NO_SPAN, CHECKED */
    ptrdiff_t streak_step; /*  8 + or - block_bytes; 0: none open */
    char *streak_next;     /* 16 address that continues the streak */
    size_t fast_limit;     /* 24 requests below it may take the fast path of malloc; 0 where blocks
                                 are hardened or recorded, and where there is no heap */
    struct ps_heap *own;   /* 32 this thread's heap; NULL: none yet, given up, or taken: thread.h */
    struct ps_heap *heap;  /* 40 of the fast path, which reads it when fast_limit is not 0 */
    uintptr_t unused;      /* 48 */
    uint32_t x_busy;       /* 56 enum ps_thread_busy */
    uint32_t is_exiting;   /* 60 this thread's heap has been given up; see exited.h */
    char *streak_from;     /* 64 where a streak was stopped by a thread that took the heap */
    uint32_t has_begun;    /* 72 counted by background.c until the thread ends */
    struct ps_heap *last;  /* 80 heap that was taken or asked for; registry lock */
    struct ps_thread_record *record; /* 88 NULL: none; see thread_record.h */
    uint32_t is_announced;           /* 96 its end will be noticed, whatever it calls: thread.h */
};

/* A thread that takes the heap writes these under the registry lock: key, streak_next, fast_limit,
 * own, last. */
extern PS_HIDDEN PS_THREAD_LOCAL_LINE(struct ps_thread_words, ps_thread);

_Static_assert(offsetof(struct ps_thread_words, x_busy) == 56,
               "detached.h: a word that has no use");

enum ps_thread_busy {
    PS_THREAD_FREE = 0,
    PS_THREAD_BUSY,  /* inside of a call that may access the thread's heap */
    PS_THREAD_ASKED, /* another thread asks for the heap; no call since */
};

/*
 * Enclose all accesses of a thread to its heap: a heap is not taken while its thread is BUSY. Cost:
 * two stores to a line that each call reads anyway; see thread.h. The words are read after the
 * first store. A nested call resets the state of both calls; so after code that may have made one,
 * the caller enters again and rereads its words.
 */
PS_INLINE void ps_thread_enter(void) {
    ps_store_relaxed(&ps_thread.x_busy, (uint32_t)PS_THREAD_BUSY); /* relaxed: see thread.h */
    ps_fence_program_order();
}
PS_INLINE void ps_thread_leave(void) {
    /* release: pairs with ask of thread.c; makes the accesses to the heap visible. */
    ps_store_release(&ps_thread.x_busy, (uint32_t)PS_THREAD_FREE);
}

/* True within a call, as code that accesses a heap expects. */
static inline bool ps_thread_is_inside(void) {
    return ps_load_relaxed(&ps_thread.x_busy) == PS_THREAD_BUSY; /* relaxed: this thread's own */
}

/* The calling thread's heap. Read once per call: it may become NULL, and return to its value, while
 * the thread is BUSY. */
PS_INLINE struct ps_heap *ps_thread_own(void) {
    /* relaxed: this thread's own heap, or NULL, after which the registry lock is taken. */
    return ps_load_relaxed(&ps_thread.own);
}

/* The heap of the fast path; NULL where the thread may not take it. Read once, as above. */
PS_INLINE struct ps_heap *ps_thread_fast(void) {
    /* relaxed, both: this thread's own; `heap` changes only while fast_limit is 0. */
    if (PS_UNLIKELY(ps_load_relaxed(&ps_thread.fast_limit) == 0)) {
        return NULL;
    }
    struct ps_heap *heap = ps_load_relaxed(&ps_thread.heap);
    if (heap == NULL) {
        __builtin_unreachable(); /* saves the callers a test */
    }
    return heap;
}

/* Owner key of the spans into which this heap frees at once. Never 0, and for a NULL heap not that
 * of any heap, so that it matches no span. */
PS_INLINE uintptr_t ps_heap_key(const struct ps_heap *heap) {
    return (uintptr_t)heap + PS_KEY_AT_ONCE;
}

/* Owner key of this heap's spans of a class. */
static inline uintptr_t ps_heap_key_of(const struct ps_heap *heap, uint32_t class_index) {
    bool is_at_once = ps_size_classes[class_index].granules == 1;
    return (uintptr_t)heap + (is_at_once ? PS_KEY_AT_ONCE : PS_KEY_SLOW);
}

/* The owning heap of a key, which must be a heap's. */
static inline struct ps_heap *ps_heap_of_key(uintptr_t key) {
    return (struct ps_heap *)(key & ~PS_KEY_MASK);
}

static inline bool ps_heap_owns(const struct ps_heap *heap, const struct ps_span *span) {
    /* relaxed: equal only if this thread wrote it. */
    return ps_heap_of_key(ps_load_relaxed(&span->x_owner)) == heap;
}

#endif
