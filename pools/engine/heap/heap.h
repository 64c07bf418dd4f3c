/* SPDX-License-Identifier: MIT */
/*
 * A heap: one thread's state, 16 KiB. A thread touches the first 4 KiB only, as long as it frees no
 * other thread's blocks and allocates none above 4 KiB. A bin per size class holds what the next
 * malloc takes; everything else is for the slow paths. Only the owning thread touches its heap,
 * except for the fields marked x_.
 *
 * This header is the inside of the heap layer. What the layers above call is in fast_path.h
 * (small blocks) and blocks.h (everything that knows an address).
 */
#ifndef PS_HEAP_HEAP_H
#define PS_HEAP_HEAP_H

#include "pools/engine/base/config.h"
#include "pools/engine/small/size_class.h"
#include "pools/engine/small/span.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * What the next malloc of a class takes: in large classes the newest block freed, in all of them
 * the newest block freed into the current span, then the window of untouched blocks.
 */
struct ps_bin {
    struct ps_span *source; /*  0 whose list is popped: `span`, or the heap's `recent` of the class;
                                  ps_span_none, which has nothing, before the class is used */
    uint32_t block_bytes;   /*  8 */
    uint32_t is_zero;       /* 12 the window's blocks read as zero */
    struct ps_span *span;   /* 16 current span; ps_span_none when there is none */
    char *cur;              /* 24 window: next block */
    char *end;              /* 32 window: behind the last block; == cur when empty */
};

extern PS_HIDDEN struct ps_span ps_span_none;

#define PS_BIN_LIMIT (PS_CLASS_NONE + 1) /* one per class, and one that is always empty */
#define PS_REMOTE_ENTRIES 64

/* Frees of another owner's blocks, gathered per span until a batch is worth an atomic. */
struct ps_remote_entry {
    struct ps_span *span; /* NULL: empty */
    void *head;
    void *tail;
    uint32_t count;
    uint32_t limit; /* blocks that make a batch */
};

enum ps_heap_state {
    PS_HEAP_LIVE = 0, /* attached to a running thread */
    PS_HEAP_PARKED,   /* its thread ended; waits for the next one */
    PS_HEAP_SHARED,   /* belongs to no thread: late.c */
    PS_HEAP_DEAD,     /* its thread did not come along into this child of a fork */
};

/* When the next guarded sample is due (guard.h); all zero before the first count. Owner only. */
struct ps_guard_sampler {
    int64_t left;    /* allocations until the next sample; below 1: due */
    uint64_t random; /* xorshift state, 0 before the first draw */
    bool is_inside;  /* a trace is being taken: what that allocates is no sample */
};

struct ps_heap {
    struct ps_bin bins[PS_BIN_LIMIT];        /*    0 */
    struct ps_span *available[PS_BIN_LIMIT]; /* 2560 spans with room */
    struct ps_span *run_span;                /* 3072 span of this thread's hot run, or NULL */
    char *run_first;                         /* 3080 the block that opened it */
    uint32_t x_back;                /* 3088 spans wholly back since the owner took its wakes */
    uint32_t x_back_worth;          /* 3092 as many are worth a walk over all wakes */
    uint32_t tick_countdown;        /* 3096 slow calls until the next look at the clock */
    uint32_t x_state;               /* 3100 enum ps_heap_state; registry lock */
    uint64_t next_scan_ms;          /* 3104 */
    uint64_t x_remote_frees;        /* 3112 owner writes, census reads */
    uint64_t x_remote_batches;      /* 3120 as above */
    struct ps_heap *next_heap;      /* 3128 all heaps ever made; registry lock */
    struct ps_heap *next_parked;    /* 3136 parked heaps without spans; registry lock */
    uintptr_t x_thread_pointer;     /* 3144 of the owning thread */
    uint32_t x_spans[PS_BIN_LIMIT]; /* 3152 spans of each class that this heap owns */
    uint64_t x_active_ms;           /* 3408 owner's last look at the clock */
    union {
        void *mode_state;       /* 3416 what the mode has of its own for the heap: mode.h */
        struct ps_hard *hard;   /*      hardened blocks: waiting ones; NULL: none wait */
        struct ps_tally *tally; /*      of a recorded program: record.h */
    };
    bool is_offered;               /* 3424 on the list of parked heaps; registry lock */
    struct ps_guard_sampler guard; /* 3432 */
    PS_ALIGNED(PS_CACHE_LINE) struct ps_span *x_wake; /* 3520 spans that others want looked at */
    uint32_t room[PS_BIN_LIMIT]; /* 3584 eighths of spans that are free: room.c */
    PS_ALIGNED(4096) struct ps_remote_entry remote[PS_REMOTE_ENTRIES]; /* 4096 see remote.c */
    struct ps_span recent[PS_CLASS_LIMIT];                             /* see recent.c */
};

_Static_assert(offsetof(struct ps_heap, remote) == 4096, "the first page is all that most need");
_Static_assert(sizeof(struct ps_heap) == 16384, "pools/README.md says so");

/*
 * The thread's own words, initial-exec TLS. At the start there is no heap, and free(NULL) is the
 * hot run of step 0 at address 0. Start-up relies on the order of the fields: see early.h.
 *
 * A hot run is a sequence of frees of adjacent blocks of one span, upwards or downwards, whoever
 * owns it: each costs a compare and an add and touches neither the block nor the span. It is
 * opened when three frees in sequence were seen at an event, and booked when it ends.
 */
struct ps_thread {
    uintptr_t key;        /*  0 of spans that free pushes to: ps_heap_key(own), or of no heap */
    ptrdiff_t run_step;   /*  8 + or - block_bytes; 0: none open */
    char *run_next;       /* 16 address that continues the hot run */
    struct ps_heap *heap; /* 24 of the fast path: `own`; NULL where blocks are hardened, recorded */
    struct ps_heap *own;  /* 32 this thread's heap; NULL: none yet, or given up */
    uint32_t is_exiting;  /* 40 this thread's heap has been given up; see late.h */
};

extern __thread PS_HIDDEN struct ps_thread ps_thread __attribute__((tls_model("initial-exec")));

/* What spans of a class that are freed into at once say of their owner. Never 0 and never the key
 * of a heap for a thread without one, so it matches no span. */
PS_INLINE uintptr_t ps_heap_key(const struct ps_heap *heap) {
    return (uintptr_t)heap + PS_KEY_AT_ONCE;
}

/* What spans of this class say of their owner. */
static inline uintptr_t ps_heap_key_of(const struct ps_heap *heap, uint32_t class_index) {
    return ps_size_classes[class_index].has_recent ? (uintptr_t)heap + PS_KEY_RECENT + class_index
                                                   : ps_heap_key(heap);
}

/* The heap that owns, by a key that is one of a heap. */
static inline struct ps_heap *ps_heap_of_key(uintptr_t key) {
    return (struct ps_heap *)(key & ~PS_KEY_MASK);
}

static inline bool ps_heap_owns(const struct ps_heap *heap, const struct ps_span *span) {
    /* relaxed: equal only if this thread wrote it. */
    return ps_heap_of_key(ps_load_relaxed(&span->x_owner)) == heap;
}

/* ---- thread.c ---- */

/*
 * The calling thread's heap, made or recycled if it has none. The engine has started. NULL when
 * memory is out or the thread is past its clean-up (is_exiting).
 */
struct ps_heap *ps_heap_acquire(void);

/* Gives the calling thread's heap up, as at its end. For tests; threads do it by themselves. */
void ps_heap_give_up(void);

/* Once, at start; then the first heap, for the thread that started the engine. */
void ps_thread_start(void);
void ps_thread_start_first(void);

/* ---- refill.c ---- */

/* A block for a request that found its bin empty. bytes: the request, for the bin of no class.
 * NULL with errno ENOMEM. */
void *ps_heap_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes);

/* Gives the memory of a drained span of this heap, on no list, back to the page cache. */
void ps_heap_release_span(struct ps_heap *heap, struct ps_span *span);

/* Finds blocks of a class for its bin. False when memory is out. */
bool ps_heap_refill_class(struct ps_heap *heap, struct ps_bin *bin, uint32_t class_index);

/* ps_heap_refill of the plain mode. */
void *ps_plain_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes);

/* Blocks that a window, or a list made of a run, may have: SIZE_MAX, less while allocations are
 * sampled. Set once, at start. */
extern PS_HIDDEN size_t ps_refill_window_blocks;

/* So many spans of a class in a heap are sparse (small/span_room.h): 0, more where blocks are
 * hardened. Set once, at start. */
extern PS_HIDDEN uint32_t ps_refill_sparse_spans;

/* Settled frees have changed a span that is not current: makes it available or lets it go. */
void ps_heap_span_gained(struct ps_heap *heap, struct ps_span *span);

/* Enters a span that is on no list and has become this heap's. */
void ps_heap_take_in(struct ps_heap *heap, struct ps_span *span);

/* Puts what the bin still holds back into its span; the bin has no span afterwards, the span is
 * available, full or gone. */
void ps_heap_empty_bin(struct ps_heap *heap, uint32_t class_index);

/* ---- pop.c ---- */

/* The newest block of a list that is not empty, with every look that there is at its link. */
__attribute__((returns_nonnull)) void *ps_heap_pop(struct ps_span *source);

/* What follows a block on a list, with the same looks. */
void *ps_heap_next(const struct ps_span *list, void *block);

/* True when a block of a span is free, as far as can be told from the block and the caller's heap:
 * it is on a list, or was never handed out. */
bool ps_heap_is_free(const struct ps_span *span, const void *block);

/* Moves the window on by a block. NULL when it is empty. */
PS_INLINE void *ps_bin_move(struct ps_bin *bin) {
    char *cur = bin->cur;
    if (PS_UNLIKELY(cur == bin->end)) {
        return NULL;
    }
    if (cur == NULL) {
        __builtin_unreachable(); /* a window that is not empty lies somewhere: saves a test */
    }
    bin->cur = cur + bin->block_bytes;
    /* relaxed: see ps_span_is_unhanded. */
    ps_store_relaxed(&bin->source->handed, (uint32_t)(uintptr_t)cur);
    return cur;
}

/* As ps_bin_pop of fast_path.h, for all who may meet hardened blocks. */
static inline void *ps_bin_take(struct ps_bin *bin) {
    return !ps_link_is_end(bin->source->free) ? ps_heap_pop(bin->source) : ps_bin_move(bin);
}

/* As ps_bin_alloc of fast_path.h, likewise. */
static inline void *ps_heap_take(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    void *block = ps_bin_take(bin);
    return PS_LIKELY(block != NULL) ? block : ps_heap_refill(heap, bin, bytes);
}

/* As ps_span_push of fast_path.h, likewise; the span may be of any class, or a list of recents. */
static inline bool ps_heap_push(struct ps_span *list, void *block) {
    ps_link_set(block, list->free, list->salt);
    list->free = block;
    return ps_counter_down(&list->needed);
}

/* ---- room.c ---- */

/* A second heap exists, or has existed: what one keeps, another may want. Relaxed: a hint. */
extern PS_HIDDEN uint32_t ps_room_x_is_shared;

/* Enters a span with room in the list of its class; takes it off. */
void ps_room_enter(struct ps_heap *heap, struct ps_span *span);
void ps_room_leave(struct ps_heap *heap, struct ps_span *span);

/* An available span has gained room. */
void ps_room_gained(struct ps_heap *heap, struct ps_span *span);

/* From time to time: where the heap keeps too much of a class, some of its spans become orphans. */
void ps_room_scan(struct ps_heap *heap);

/* The heap gives a span up that is on no list. */
void ps_room_orphan(struct ps_heap *heap, struct ps_span *span);

/* ---- recent.c ---- */

/* Before a heap's first span of a class: if the class has recent blocks, makes them the source of
 * its bin. Returns whether it has. */
bool ps_recent_start(struct ps_heap *heap, uint32_t class_index);

/* The countdown of a class's recent blocks is over. */
void ps_recent_event(struct ps_heap *heap, uint32_t class_index);

/* Moves what lies on the current span's own list to the recent blocks, which have run out. */
void ps_recent_take(struct ps_heap *heap, struct ps_span *span);

/* Blocks that wait there. */
size_t ps_recent_count(const struct ps_heap *heap, uint32_t class_index);

/* Puts a class's recent blocks, or everybody's, into their spans. */
void ps_recent_flush(struct ps_heap *heap, uint32_t class_index);
void ps_recent_flush_all(struct ps_heap *heap);

/* ---- run.c ---- */

/* Opens a hot run with `block`, which counts as used until the run is booked. */
void ps_run_open(struct ps_heap *heap, struct ps_span *span, void *block, ptrdiff_t step);

/* Books this thread's hot run, if one is open, with its span's owner. */
void ps_run_close(struct ps_heap *heap);

/* What ps_run_close does with the blocks in the plain mode. */
void ps_plain_give_run(struct ps_heap *heap, struct ps_span *span, char *lowest, size_t blocks);

/* The step if the three blocks at the head of a list were freed in sequence, else 0. */
ptrdiff_t ps_run_step_of(const struct ps_span *span, void *newest);

/* ---- remote.c ---- */

/* Frees a block of another owner's span. */
void ps_remote_free(struct ps_heap *heap, struct ps_span *span, void *block);

/* Frees a block of a span by a thread without a heap: it is handed to the owner at once. */
void ps_remote_free_at_once(struct ps_span *span, void *block);

/* Hands all gathered frees over. */
void ps_remote_flush(struct ps_heap *heap);

/* Tells the owner of a span that is QUEUED, whoever that is by now. */
void ps_wake_owner(struct ps_span *span);

/* Of a heap whose thread has ended: sends its wakes on to the orphanage. */
void ps_heap_send_on_wakes(struct ps_heap *heap);

/* Does what a hand-over asks for. handed: its result. */
void ps_remote_handed(struct ps_span *span, unsigned handed);

/* Looks for an owner who does not look at his wakes, and gives those of his spans back to the page
 * cache whose blocks have all come back. Returns whether there were any. */
bool ps_heap_steal_back(const struct ps_heap *heap);

/* In the child of a fork, all locks free: sends the wakes that another thread had in hand. */
void ps_remote_fork_salvage(void);

/* Looks at the spans that others wanted looked at. Of a dead heap, in the child of a fork: sends
 * them on to the orphanage. */
void ps_heap_take_wakes(struct ps_heap *heap);

/* ---- tick.c ---- */

/* Called on slow paths: every few calls looks at the clock, purges what is due and lets go of
 * drained spans that were kept. */
void ps_heap_tick(struct ps_heap *heap);

/* Gives the kept, drained spans of a heap back to the page cache. */
void ps_heap_drop_drained(struct ps_heap *heap);

#endif
