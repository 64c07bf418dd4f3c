/* SPDX-License-Identifier: MIT */
/*
 * The slow side of the lock, and the rank check of the checked builds. See lock.h.
 */
#include "pools/os/lock.h"

/* About 1 us: longer than every critical section that makes no system call. */
#define SPIN_COUNT 64

static __thread uint32_t held_ranks __attribute__((tls_model("initial-exec")));

void ps_lock_check_acquire(const struct ps_lock *lock) {
    PS_CHECK((held_ranks >> lock->rank) == 0); /* ascending only, never twice */
    held_ranks |= 1u << lock->rank;
}

void ps_lock_check_release(const struct ps_lock *lock) {
    PS_CHECK((held_ranks >> lock->rank) & 1u);
    held_ranks &= ~(1u << lock->rank);
}

PS_COLD void ps_lock_acquire_slow(struct ps_lock *lock) {
    for (int spin = 0; spin < SPIN_COUNT; spin++) {
        uint32_t expected = 0;
        /* relaxed first look saves the bus; acquire on success as in ps_lock_acquire. */
        if (ps_load_relaxed(&lock->x_state) == 0 &&
            ps_cas_weak_acquire(&lock->x_state, &expected, 1u)) {
            return;
        }
        ps_cpu_relax();
    }
    /* acquire: as above. Marks the lock contended, so the holder's release wakes us. */
    while (ps_exchange_acquire(&lock->x_state, 2u) != 0) {
        ps_os_wait(&lock->x_state, 2);
    }
}
