/* SPDX-License-Identifier: MIT */
/*
 * Forks. No lock is taken for a fork (os/lock.h gives the reason); the child repairs its copy in
 * this order. Locks that other threads held are rolled back and released. The heaps of all other
 * threads become DEAD: their spans stay valid, blocks of them can be freed, and spans are salvaged
 * when a notice for them is due. Then operations that other threads had begun between two locked
 * sections are completed where their state is known. Unknown state is lost in the child: for each
 * thread that was inside of the engine a run, notices of some spans, the lists of a granule cache.
 */
#ifndef PS_HEAP_FORK_H
#define PS_HEAP_FORK_H

struct ps_lock;

/* Installs the handlers. Called once, when the engine works. lock: the one that the start holds,
 * repaired in a child. */
void ps_fork_register(struct ps_lock *lock);

#endif
