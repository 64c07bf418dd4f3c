/* SPDX-License-Identifier: MIT */
/*
 * The lock of a processor's cache of medium blocks (cpu_medium.h). It is only tried: a call that
 * finds it held, by a thread that was preempted or by the call that a signal handler interrupted,
 * goes on without the cache. So a cache may be that of another processor, too, and there may be
 * more processors than caches.
 *
 * A holder says which part it changes. In the child of a fork that part is given up where another
 * thread held the lock.
 */
#ifndef PS_HEAP_CPU_LOCK_H
#define PS_HEAP_CPU_LOCK_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"

#include <stdbool.h>
#include <stdint.h>

struct ps_cpu_lock {
    uint32_t x_holder; /* id of the thread that holds it; 0: free */
    uint32_t changing; /* part that the holder changes, or the last one did */
};

/* Before each change of another part. Holder only. */
static inline void ps_cpu_lock_changes(struct ps_cpu_lock *lock, size_t part) {
    lock->changing = (uint32_t)part;
    ps_fence_program_order(); /* for the child of a fork */
}

static inline bool ps_cpu_lock_enter(struct ps_cpu_lock *lock, size_t part) {
    uint32_t none = 0;
    /* acquire: pairs with ps_cpu_lock_leave; makes what the cache lists visible. */
    if (!ps_cas_strong_acquire(&lock->x_holder, &none, ps_lock_self())) {
        return false;
    }
    ps_cpu_lock_changes(lock, part);
    return true;
}

static inline void ps_cpu_lock_leave(struct ps_cpu_lock *lock) {
    ps_store_release(&lock->x_holder, 0u); /* release: pairs with ps_cpu_lock_enter */
}

/* In the child of a fork, on its only thread: frees a lock that another thread held. Returns
 * whether one did; its part is then to be given up. */
static inline bool ps_cpu_lock_fork_child(struct ps_cpu_lock *lock) {
    /* relaxed, both: the only thread. A section of its own goes on after the signal handler. */
    uint32_t holder = ps_load_relaxed(&lock->x_holder);
    if (holder == 0 || holder == ps_lock_self()) {
        return false;
    }
    ps_store_relaxed(&lock->x_holder, 0u);
    return true;
}

#endif
