/* SPDX-License-Identifier: MIT */
/*
 * The slow path of the lock, and the rank check of checked builds. See lock.h.
 */
#include "pools/engine/os/lock.h"

/* About 1 us: longer than every critical section that makes no system call. */
#define SPIN_COUNT 64

#define KERNEL_ID_LIMIT (1u << 22) /* PID_MAX_LIMIT of 64-bit kernels */
#define ID_LIMIT (PS_LOCK_WAITERS - KERNEL_ID_LIMIT - 1)

__thread PS_HIDDEN uint32_t ps_lock_thread_id __attribute__((tls_model("initial-exec")));
static uint32_t x_last_id = KERNEL_ID_LIMIT;
static uint32_t *x_fork_mark; /* 1, and 0 in the child of a fork until it has a second thread */
/* Per thread, because several may fork at once. */
static __thread struct {
    uint32_t held_ranks : 24; /* checked builds */
    uint32_t is_forking : 1;
    uint32_t is_interrupted : 1; /* in the child: the fork came from inside one of the thread's own
                                  * sections */
} self_state __attribute__((tls_model("initial-exec")));

/*
 * Ends the time in which a taken lock is repaired on contention: the child has a second thread. It
 * must not end earlier, because the handlers that repair each layer's locks do not run all at once,
 * and other handlers may allocate between them.
 */
static void end_repairs(void) {
    uint32_t *mark = ps_load_relaxed(&x_fork_mark); /* relaxed: written before there were threads */
    if (mark != NULL) {
        /* seq_cst: precedes the swaps that take locks. Pairs with ps_lock_acquire_slow. */
        (void)ps_exchange_seq_cst(mark, 1u);
    }
}

/* True in the child of a fork until a second thread has taken a lock. */
static bool is_unrepaired_child(void) {
    const uint32_t *mark = ps_load_acquire(&x_fork_mark); /* acquire: see ps_lock_watch_forks */
    return mark != NULL && ps_load_relaxed(mark) == 0;    /* relaxed: written by one thread */
}

/*
 * Counts ids instead of reading them from the kernel: saves one system call per thread, and one
 * that a sandbox would have to allow. The kernel's ids are below the first counted one, so they
 * serve as a fallback after two thousand million threads, and no two living threads have the same
 * id.
 */
PS_COLD uint32_t ps_lock_ask_thread_id(void) {
    if (is_unrepaired_child() && !ps_os_is_first_thread()) {
        end_repairs(); /* from here on a thread of this process may have a lock */
    }
    /* relaxed, both: ids need only be unique. Threads that read at the same time may each pass the
     * limit by one; there are fewer of them than ids left above it. */
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
    /* relaxed, all: the process has one thread. */
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

/* relaxed: as above. */
static uint32_t holder_of(const struct ps_lock *lock) {
    return ps_load_relaxed(&lock->x_state) & ~PS_LOCK_WAITERS;
}

bool ps_lock_is_own(const struct ps_lock *lock) {
    return holder_of(lock) != 0 && holder_of(lock) == ps_lock_thread_id;
}

bool ps_lock_is_left_behind(const struct ps_lock *lock) {
    return holder_of(lock) != 0 && !ps_lock_is_own(lock);
}

bool ps_lock_fork_repaired(void) { return !self_state.is_interrupted; }

PS_COLD void ps_lock_watch_forks(void) {
    if (ps_load_relaxed(&x_fork_mark) != NULL) { /* relaxed: a second mark is harmless */
        return;
    }
    uint32_t *mark = ps_os_word_wiped_by_fork();
    if (mark != NULL) {
        ps_store_relaxed(mark, 1u); /* relaxed: published by the store below */
        /* release: pairs with is_unrepaired_child; a thread that reads the pointer reads the mark
         * as set. */
        ps_store_release(&x_fork_mark, mark);
    }
}

void ps_lock_check_acquire(const struct ps_lock *lock) {
    /* Ascending only, never twice. A fork inside a signal handler may find any lock taken. */
    PS_CHECK((self_state.held_ranks >> lock->rank) == 0 || ps_lock_is_forking());
    self_state.held_ranks = (self_state.held_ranks | 1u << lock->rank) & 0xffffff;
}

void ps_lock_check_release(const struct ps_lock *lock) {
    PS_CHECK((self_state.held_ranks >> lock->rank) & 1u);
    self_state.held_ranks &= ~(1u << lock->rank) & 0xffffff;
}

/* Sleeps until the lock is released, with WAITERS set so that the release unblocks a waiter. */
static void wait_for_release(struct ps_lock *lock) {
    uint32_t state = ps_load_relaxed(&lock->x_state); /* relaxed: a reason to sleep, not a claim */
    if (state == 0) {
        return;
    }
    /* acquire is stronger than needed; this swap changes no ownership. */
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
        (void)ps_lock_fork_child(lock); /* the holder exists in the parent only */
    }
    for (uint32_t free_state = 0;; free_state = 0) { /* ends when the lock is released */
        /* acquire: as in ps_lock_try. Other threads may sleep too, so WAITERS remains set. */
        if (ps_cas_strong_acquire(&lock->x_state, &free_state, self | PS_LOCK_WAITERS)) {
            break;
        }
        wait_for_release(lock);
    }
    if (PS_CHECKED) {
        ps_lock_check_acquire(lock);
    }
}
