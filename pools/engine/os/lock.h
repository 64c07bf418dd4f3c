/* SPDX-License-Identifier: MIT */
/*
 * The engine's lock: one word, a short spin, then a futex. Locks are taken in ascending rank only,
 * which checked builds assert. The data that a lock protects is named beside the lock. Decide under
 * the lock, make system calls after it.
 *
 * Forks. No lock is taken for a fork: between the fork handlers and the fork itself libc takes
 * locks of its own (the list of streams, the name service), and fork handlers that were registered
 * earlier run there too, so taking an engine lock there can deadlock with a thread that holds one
 * and takes libc's. Instead the child repairs its copy. It contains only the forking thread; a lock
 * that another thread held is rolled back by its undo log (base/undo.h) and released. A lock that
 * the forking thread holds itself, because a signal handler forks, remains locked in both
 * processes: the section continues when the handler returns.
 */
#ifndef PS_OS_LOCK_H
#define PS_OS_LOCK_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/base/undo.h"
#include "pools/engine/os/os.h"

/* All ranks: a thread that holds a lock may take only one of a higher rank. */
enum ps_lock_rank {
    PS_RANK_INIT = 1,         /* heap/start.c, pages/alone.c: one-time initialisation */
    PS_RANK_PARTITIONS = 2,   /* front/partition.c: the table of partitions */
    PS_RANK_FRONT_USERS = 3,  /* heap/front_thread.c: threads that use fronts */
    PS_RANK_SURPLUS = 4,      /* heap/surplus.c: bound on free memory */
    PS_RANK_MAPPING = 5,      /* heap/mapping.c: freed mappings kept for reuse */
    PS_RANK_PURGE = 6,        /* page/purge.c: one purging thread; held over madvise, as the next */
    PS_RANK_MEDIUM_PURGE = 6, /* page/medium_purge.c: one purging thread; together with neither */
    PS_RANK_DEMAND = 6,       /* profile/demand.c: begin and end of sampling; with none of those */
    PS_RANK_STORE = 6,        /* front/store.c: slabs of a class; with none of those */
    PS_RANK_EXTENTS = 6,      /* page/extents.c: granules of a partition; with none of those */
    PS_RANK_PAGE = 7,         /* page/page_cache.c: free runs, arenas, page map writes */
    PS_RANK_MEDIUM = 7,       /* page/medium_regions.c: a shard; one at a time, without the above */
    PS_RANK_STORE_CHUNK = 7,  /* front/store.c: bitmaps; with neither */
    PS_RANK_WINDOWS = 7,      /* front/window.c: records without a thread; likewise */
    PS_RANK_EXTENT_SPARE = 7, /* page/extents.c: records without an extent; likewise */
    PS_RANK_STARTS = 7,       /* heap/thread.c: routines of threads; likewise */
    PS_RANK_METADATA = 8,     /* page/metadata.c: memory for fronts and map leaves */
    PS_RANK_MAGAZINE = 9,     /* pages/magazine.c: list of magazines */
    PS_RANK_DEPOT = 10,       /* pages/depot.c: free pages in granules; innermost */
    PS_RANK_SLICE_DEPOT = 12, /* slice/depot.c, and three more: full lists and runs */
    PS_RANK_SLICE_LIVE = 16,  /* slice/live.c: the table of live slices in checked runs */
    PS_RANK_REGISTRY_OF_POOLS = 17, /* common/registry.c: the list of pools; innermost */
    PS_RANK_GUARD = 17,             /* harden/guard.h: queue of free slots; innermost */
    PS_RANK_HARD = 18,              /* harden/hard_large.c: quarantined runs; innermost */
    PS_RANK_RECORD = 19,            /* record/record_peak.c: snapshots; innermost */
    PS_RANK_LIMIT = 20,             /* heap/limit.c: covers the reading of /proc; innermost */
    PS_RANK_PROFILE = 21,           /* profile/table.c: stacks and live samples; innermost */
};

/* Each lock has its own cache line, so that contention on one does not slow down other locks, or
 * variables that the linker places next to it. */
struct ps_lock {
    PS_ALIGNED(PS_CACHE_LINE)
    uint32_t x_state;            /* 0 free, else the holder's id, and WAITERS when a thread waits */
    uint16_t rank;               /* enum ps_lock_rank, constant */
    uint16_t depth;              /* holder only: nesting by a signal handler that forks */
    struct ps_undo *undo;        /* of the protected data, constant; NULL: no roll-back */
    struct ps_undo_entry *outer; /* with depth > 0: the entries noted by the interrupted section */
};

#define PS_LOCK_INIT_UNDO(lock_rank, lock_undo)                                                    \
    { 0, (lock_rank), 0, (lock_undo), NULL }
#define PS_LOCK_INIT(lock_rank) PS_LOCK_INIT_UNDO(lock_rank, NULL)
#define PS_LOCK_WAITERS 0x80000000u

/* The calling thread's id, unique among living threads; 0 until first requested. */
extern __thread PS_HIDDEN uint32_t ps_lock_thread_id __attribute__((tls_model("initial-exec")));
uint32_t ps_lock_ask_thread_id(void);

void ps_lock_acquire_slow(struct ps_lock *lock);

/* Checked builds: records the rank, and aborts on a descending one. */
void ps_lock_check_acquire(const struct ps_lock *lock);
void ps_lock_check_release(const struct ps_lock *lock);

static inline uint32_t ps_lock_self(void) {
    return PS_LIKELY(ps_lock_thread_id != 0) ? ps_lock_thread_id : ps_lock_ask_thread_id();
}

/* Takes the lock if it is free. */
static inline bool ps_lock_try(struct ps_lock *lock) {
    uint32_t expected = 0;
    /* acquire: pairs with ps_lock_release; makes what the last holder wrote visible. */
    if (PS_UNLIKELY(!ps_cas_strong_acquire(&lock->x_state, &expected, ps_lock_self()))) {
        return false;
    }
    if (PS_CHECKED) {
        ps_lock_check_acquire(lock);
    }
    return true;
}

static inline void ps_lock_acquire(struct ps_lock *lock) {
    if (PS_UNLIKELY(!ps_lock_try(lock))) {
        ps_lock_acquire_slow(lock);
    }
}

/* Marks the protected data as consistent: a roll-back stops here, or, in a nested acquisition, at
 * the entries of the interrupted section. Holder only; the lock has a log. */
static inline void ps_lock_commit(struct ps_lock *lock) {
    ps_undo_commit(lock->undo, PS_LIKELY(lock->depth == 0) ? lock->undo->first : lock->outer);
}

static inline void ps_lock_release(struct ps_lock *lock) {
    if (lock->undo != NULL) {
        ps_lock_commit(lock);
    }
    if (PS_UNLIKELY(lock->depth != 0)) {
        lock->depth--;
        return;
    }
    if (PS_CHECKED) {
        ps_lock_check_release(lock);
    }
    /* release: pairs with ps_lock_acquire of the next holder. */
    if ((ps_exchange_release(&lock->x_state, 0u) & PS_LOCK_WAITERS) != 0) {
        ps_os_wake_one(&lock->x_state);
    }
}

/*
 * For fork handlers, in the forking thread. The thread may have been interrupted inside a locked
 * section by a signal handler that forks, and fork handlers of the program may allocate: between
 * ps_lock_fork_begin and ps_lock_fork_end the thread may take its locks again, in any order.
 */
void ps_lock_fork_begin(void);
void ps_lock_fork_end(void);

/* True between ps_lock_fork_begin and ps_lock_fork_end of the calling thread. */
bool ps_lock_is_forking(void);

/*
 * Repairs one lock in the child of a fork, on its only thread: if another thread held it, rolls the
 * data back and releases it. Returns false, and changes nothing, if the calling thread has it,
 * which means that the fork came from a signal handler.
 */
bool ps_lock_fork_child(struct ps_lock *lock);

/* Before it: whether another thread held the lock, or the calling one. */
bool ps_lock_is_left_behind(const struct ps_lock *lock);
bool ps_lock_is_own(const struct ps_lock *lock);

/*
 * Makes contended locks detect the child of a fork by themselves, before ps_lock_fork_child has
 * repaired them: fork handlers of the program run before ours and may allocate. Called once a
 * second thread may exist; any thread, any number of times. Costs two system calls and a page.
 */
void ps_lock_watch_forks(void);

/* In the child, after all locks are repaired. Returns false if ps_lock_fork_child found a lock of
 * the calling thread; the data under such locks must not be used now. */
bool ps_lock_fork_repaired(void);

#endif
