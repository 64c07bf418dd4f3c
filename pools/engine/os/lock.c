/* SPDX-License-Identifier: MIT */
/*
 * The slow side of the lock, and the rank check of the checked builds. See lock.h.
 */
#include "pools/engine/os/lock.h"

/* About 1 us: longer than every critical section that makes no system call. */
#define SPIN_COUNT 64

#define KERNEL_ID_LIMIT (1u << 22) /* PID_MAX_LIMIT of 64-bit kernels */
#define ID_LIMIT (PS_LOCK_WAITERS - KERNEL_ID_LIMIT - 1)

__thread PS_HIDDEN uint32_t ps_lock_thread_id __attribute__((tls_model("initial-exec")));
static uint32_t x_last_id = KERNEL_ID_LIMIT;
static uint32_t *x_fork_mark; /* 1, and 0 in the child of a fork until it has a second thread */
/* Per thread: several may fork at once. */
static __thread struct {
    uint32_t held_ranks : 24; /* checked builds */
    uint32_t is_forking : 1;
    uint32_t is_interrupted : 1; /* in the child: it forked inside of a section of its own */
} self_state __attribute__((tls_model("initial-exec")));

/*
 * Ends the time in which locks are repaired when they are found held: the child has a second
 * thread. Not before, since handlers that repair, each its layer's locks, are not all run at once:
 * between them others may allocate.
 */
static void end_repairs(void) {
    uint32_t *mark = ps_load_relaxed(&x_fork_mark); /* relaxed: written before there were threads */
    if (mark != NULL) {
        /* seq_cst: stands before the swaps that take locks. Pairs with ps_lock_acquire_slow. */
        (void)ps_exchange_seq_cst(mark, 1u);
    }
}

/* Whether this is the child of a fork, and no second thread has come to a lock. */
static bool is_unrepaired_child(void) {
    const uint32_t *mark = ps_load_acquire(&x_fork_mark); /* acquire: see ps_lock_watch_forks */
    return mark != NULL && ps_load_relaxed(mark) == 0;    /* relaxed: written by one thread */
}

/*
 * Counted, not read from the kernel: one system call less per thread, and one less that a sandbox
 * must allow. The kernel's ids are below the first of ours, so when two thousand million are used
 * up, they take over, and no two living threads ever have the same.
 */
PS_COLD uint32_t ps_lock_ask_thread_id(void) {
    if (is_unrepaired_child() && !ps_os_is_first_thread()) {
        end_repairs(); /* from now on a lock may be held by a thread that exists */
    }
    /* relaxed, both: that an id is unique is all that matters. Threads that read it at the same
     * time can pass the limit, each by one; there are fewer of them than ids left above it. */
    if (ps_load_relaxed(&x_last_id) < ID_LIMIT) {
        ps_lock_thread_id = ps_add_relaxed(&x_last_id, 1u) + 1;
    } else {
        ps_lock_thread_id = ps_os_thread_number();
    }
    return ps_lock_thread_id;
}

void ps_lock_fork_begin(void) {
    self_state.is_forking = true;
    self_state.is_interrupted = false;
}

void ps_lock_fork_end(void) { self_state.is_forking = false; }

bool ps_lock_is_forking(void) { return self_state.is_forking; }

bool ps_lock_fork_child(struct ps_lock *lock) {
    /* relaxed, all: the only thread of the process. */
    uint32_t holder = ps_load_relaxed(&lock->x_state) & ~PS_LOCK_WAITERS;
    if (holder == 0) {
        return true;
    }
    if (holder == ps_lock_thread_id) {
        self_state.is_interrupted = true;
        return false;
    }
    if (lock->undo != NULL) {
        ps_undo_roll_back(lock->undo);
    }
    lock->depth = 0;
    ps_store_relaxed(&lock->x_state, 0u);
    return true;
}

bool ps_lock_fork_repaired(void) { return !self_state.is_interrupted; }

PS_COLD void ps_lock_watch_forks(void) {
    if (ps_load_relaxed(&x_fork_mark) != NULL) { /* relaxed: a second mark would do no harm */
        return;
    }
    uint32_t *mark = ps_os_word_wiped_by_fork();
    if (mark != NULL) {
        ps_store_relaxed(mark, 1u); /* relaxed: published by the next */
        /* release: pairs with is_unrepaired_child; a thread that reads the pointer reads the word
         * as set. */
        ps_store_release(&x_fork_mark, mark);
    }
}

void ps_lock_check_acquire(const struct ps_lock *lock) {
    /* Ascending only, never twice. A fork inside a signal handler may hold any. */
    PS_CHECK((self_state.held_ranks >> lock->rank) == 0 || ps_lock_is_forking());
    self_state.held_ranks |= (1u << lock->rank) & 0xffffff;
}

void ps_lock_check_release(const struct ps_lock *lock) {
    PS_CHECK((self_state.held_ranks >> lock->rank) & 1u);
    self_state.held_ranks &= ~(1u << lock->rank) & 0xffffff;
}

/* Sleeps until the lock is released, with WAITERS set so that the release unblocks a waiter. */
static void wait_for_release(struct ps_lock *lock) {
    uint32_t state = ps_load_relaxed(&lock->x_state); /* relaxed: only a reason to sleep */
    if (state == 0) {
        return;
    }
    /* acquire is more than this swap needs; it changes no ownership. */
    if ((state & PS_LOCK_WAITERS) == 0 &&
        !ps_cas_strong_acquire(&lock->x_state, &state, state | PS_LOCK_WAITERS)) {
        return;
    }
    ps_os_wait(&lock->x_state, state | PS_LOCK_WAITERS);
}

PS_COLD void ps_lock_acquire_slow(struct ps_lock *lock) {
    uint32_t self = ps_lock_self();
    /* relaxed: equal only if this thread wrote it and still holds the lock. */
    if ((ps_load_relaxed(&lock->x_state) & ~PS_LOCK_WAITERS) == self) {
        PS_CHECK(ps_lock_is_forking());
        if (lock->depth++ == 0 && lock->undo != NULL) {
            lock->outer = lock->undo->next;
        }
        return;
    }
    for (int spin = 0; spin < SPIN_COUNT; spin++) {
        /* relaxed: a first read without bus traffic. */
        if (ps_load_relaxed(&lock->x_state) == 0 && ps_lock_try(lock)) {
            return;
        }
        ps_cpu_relax();
    }
    /* acquire: pairs with end_repairs; a holder that exists has set the mark before. */
    if (ps_load_acquire(&lock->x_state) != 0 && PS_UNLIKELY(is_unrepaired_child()) &&
        ps_os_is_first_thread()) {
        (void)ps_lock_fork_child(lock); /* the holder exists in the parent alone */
    }
    for (uint32_t free_state = 0;; free_state = 0) { /* ends when the lock is released */
        /* acquire: as in ps_lock_try. Others may sleep too, so WAITERS stays set. */
        if (ps_cas_strong_acquire(&lock->x_state, &free_state, self | PS_LOCK_WAITERS)) {
            break;
        }
        wait_for_release(lock);
    }
    if (PS_CHECKED) {
        ps_lock_check_acquire(lock);
    }
}
