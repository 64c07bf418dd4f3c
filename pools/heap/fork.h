/* SPDX-License-Identifier: MIT */
/*
 * Fork: every lock is taken before, in rank order, and given back after, in parent and child. In
 * the child the heaps of all other threads are dead: their spans stay valid, blocks of them can be
 * freed, and what comes back is salvaged when it is worth a wake.
 */
#ifndef PS_HEAP_FORK_H
#define PS_HEAP_FORK_H

/* Once, when the engine works. */
void ps_fork_register(void);

/* thread.c's part. */
void ps_thread_fork_prepare(void);
void ps_thread_fork_lock_registry(void);
void ps_thread_fork_parent(void);
void ps_thread_fork_child(void);
void ps_thread_fork_salvage(void); /* last in the child, no lock held */

#endif
