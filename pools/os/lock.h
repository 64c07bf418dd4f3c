/* SPDX-License-Identifier: MIT */
/*
 * The engine's lock: one word, a short spin, then the kernel. Locks are taken in ascending rank
 * only; checked builds assert it. What a lock protects stands beside the lock. Decide under the
 * lock, make system calls after it. All locks are listed here, so that fork can take every one.
 */
#ifndef PS_OS_LOCK_H
#define PS_OS_LOCK_H

#include "pools/base/atomic.h"
#include "pools/base/check.h"
#include "pools/os/os.h"

/* Ranks: a thread that holds one may take only a higher one. */
enum ps_lock_rank {
    PS_RANK_INIT = 1,     /* heap/thread.c: one-time initialisation */
    PS_RANK_LATE = 2,     /* heap/late.c: the heap of threads whose own is gone */
    PS_RANK_REGISTRY = 3, /* heap/thread.c: list of heaps */
    PS_RANK_ORPHAN = 4,   /* small/central.c: spans without an owner */
    PS_RANK_MAPPING = 5,  /* heap/mapping.c: freed mappings kept for reuse */
    PS_RANK_PURGE = 6,    /* page/purge.c: one purger at a time; the only one held over madvise */
    PS_RANK_PAGE = 7,     /* page/page_cache.c: free runs, arenas, page map writes */
    PS_RANK_METADATA = 8, /* page/metadata.c: memory for heaps and map leaves */
};

struct ps_lock {
    uint32_t x_state; /* 0 free, 1 held, 2 held and somebody waits */
    uint32_t rank;    /* enum ps_lock_rank, constant */
};

#define PS_LOCK_INIT(lock_rank) {0, (lock_rank)}

void ps_lock_acquire_slow(struct ps_lock *lock);

/* Checked builds: notes the rank and aborts on a descending one. */
void ps_lock_check_acquire(const struct ps_lock *lock);
void ps_lock_check_release(const struct ps_lock *lock);

static inline void ps_lock_acquire(struct ps_lock *lock) {
    uint32_t expected = 0;
    if (PS_CHECKED) {
        ps_lock_check_acquire(lock);
    }
    /* acquire: pairs with ps_lock_release; makes what the last holder wrote visible. */
    if (PS_UNLIKELY(!ps_cas_weak_acquire(&lock->x_state, &expected, 1u))) {
        ps_lock_acquire_slow(lock);
    }
}

/* Takes the lock if it is free. */
static inline bool ps_lock_try(struct ps_lock *lock) {
    uint32_t expected = 0;
    /* acquire: as in ps_lock_acquire. */
    if (!ps_cas_weak_acquire(&lock->x_state, &expected, 1u)) {
        return false;
    }
    if (PS_CHECKED) {
        ps_lock_check_acquire(lock);
    }
    return true;
}

static inline void ps_lock_release(struct ps_lock *lock) {
    if (PS_CHECKED) {
        ps_lock_check_release(lock);
    }
    /* release: pairs with ps_lock_acquire of the next holder. */
    if (ps_exchange_release(&lock->x_state, 0u) == 2) {
        ps_os_wake_one(&lock->x_state);
    }
}

/* In the child of a fork, where no other thread exists: forgets the waiters, stays free. */
static inline void ps_lock_reset(struct ps_lock *lock) {
    if (PS_CHECKED) {
        ps_lock_check_release(lock);
    }
    ps_store_relaxed(&lock->x_state, 0u); /* relaxed: the only thread of the process */
}

#endif
