/* SPDX-License-Identifier: MIT */
/*
 * The state of a thread for small blocks, besides fronts: its words, windows and a free streak; and
 * its beginning and end. heap/front_path.h is the path of a call.
 *
 * The words of a thread are in its own memory, and no other thread reads them. A thread that ends
 * without its destructors leaves a window and a streak. One that has run its destructors
 * uses the store directly, and gets neither again.
 *
 * Callers: front_path.c, maintenance.c, start.c, thread.c, shim/threads.c. The calling thread only,
 * except as noted. Locks: users_lock, while a thread begins and while the only one empties fronts.
 */
#ifndef PS_HEAP_FRONT_THREAD_H
#define PS_HEAP_FRONT_THREAD_H

#include "pools/engine/base/config.h"
#include "pools/engine/front/front.h"
#include "pools/engine/front/window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Requested bytes between two events of malloc; fewer while allocations are sampled. */
#define PS_FRONT_EVENT_BYTES ((int64_t)64 << 10)

/* Counts bytes for samples: see the hook count_bytes of mode.h. harden/guard.h also counts
 * allocations. */
struct ps_sampler {
    int64_t left_bytes;    /* of requests, until the next sample */
    uint64_t random;       /* state of the generator; 0: it is to begin */
    size_t interval_bytes; /* mean of the draws; 0: nothing was drawn */
    uint32_t epoch;        /* of profile/demand.h; 0: nothing was drawn */
};

/* Initial-exec TLS. The offsets: before relocation these are words of the thread control block
 * (heap/bootstrap.h). streak_next is then an address that is no block, and fast_limit is 0. */
struct ps_front_words {
    char *streak_next;          /*  0 address that continues the streak */
    ptrdiff_t streak_step;      /*  8 + or - the size of a block; 0: none open */
    char *streak_first;         /* 16 the block that opened it */
    size_t fast_limit;          /* 24 requests below it may take the fast path; 0: none */
    struct ps_front *own;       /* 32 a front that no other thread uses; the first thread's */
    int64_t left_bytes;         /* 40 of requests, until ps_front_event */
    struct ps_windows *windows; /* 48 &ps_windows_none: it has no record yet */
    uint32_t end;               /* 56 enum ps_front_end */
    uint32_t calls;             /* 60 of slow paths */
    struct ps_sampler sampler;  /* 64 */
    uint32_t armed_bytes;       /* 96 left_bytes began at this; 0: the thread has not begun */
    uint16_t surplus_countdown; /* 100 readings of the clock until the bound is checked */
    bool is_behind;             /* 102 then the next slow call reads it */
    uint8_t inherited_frees;    /* 103 and those of blocks of partitions */
    uint64_t next_scan_ms;      /* 104 of periodic work: maintenance.c */
    size_t large_most_bytes;    /* 112 that a block above the classes counts for in left_bytes */
    uint32_t x_is_counted;      /* 120 by background.h, until it ends; signal handlers, too */
    bool is_announced;          /* 124 its end will be noticed, whatever it calls: thread.h */
    uint8_t noted_part;         /* 125 for the next request: harden/site.h */
};

/* State of the notice of the thread's end. */
enum ps_front_end {
    PS_FRONT_END_UNKNOWN = 0,
    PS_FRONT_END_ASKED, /* libc is being told */
    PS_FRONT_END_NOTED, /* the thread may have windows and streaks */
    PS_FRONT_END_OVER,  /* its destructors have run */
};

extern PS_HIDDEN PS_THREAD_LOCAL_LINE(struct ps_front_words, ps_front_thread);
extern PS_HIDDEN struct ps_windows ps_windows_none;

/* Called once, with the engine, after its mode has been chosen. */
void ps_front_engine_start(void);

/* Lets the calling thread take the fast path. The engine has started, and the thread not ended. */
void ps_front_begin(void);

/* Called by a free where the thread has no front yet. False: it does not get one. */
bool ps_front_begin_to_free(void);

/* True if the thread may have windows and streaks: its destructors will run, and have not. */
bool ps_front_end_is_noted(void);

/* Gives the thread a record of windows if it has none. False: it may have none, or memory is
 * exhausted. */
bool ps_front_has_windows(void);

/* The first thread's own front becomes that of an id: it is about to create another thread. No
 * effect on others. */
void ps_front_share_own(void);

/* The same once another thread has begun that was not created by pthread_create. */
void ps_front_share_beside_others(void);

/* The destructors of the calling thread run. */
void ps_front_thread_ended(void);

/* Counts the requests since the last call, and begins again. Returns whether a sample is due. */
bool ps_front_count_bytes(void);

/* ---- free streaks ---- */

/* Opens a streak with the newest freed block, if it and those before it, the latest first, are
 * adjacent. False: they are not. */
bool ps_front_open_streak(size_t class_index, char *newest, void *const *before, size_t count);

/* Returns the blocks of the streak, if one is open. */
void ps_front_close_streak(void);

/* ---- periodic work ---- */

/* Now and then, or, if is_all, on demand: returns the blocks of the thread's streak, and what its
 * own front has not used. */
void ps_front_scan(bool is_all);

/* Returns what fronts of ids have not used, or all: see ps_front_return_idle. may_sleep: also where
 * other threads may use them, which costs milliseconds. Any thread. */
void ps_front_return_shared(bool is_all, bool may_sleep);

/* Returns all blocks of the calling thread: a streak, windows, its own front. */
void ps_front_flush(void);

/* In the child of a fork, on its only thread. */
void ps_front_engine_fork_child(void);

#endif
