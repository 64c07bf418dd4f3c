/* SPDX-License-Identifier: MIT */
/*
 * Fork. Nothing is locked for it (os/lock.h says why); the child repairs what it finds, in this
 * order: locks that other threads held are rolled back and freed; the heaps of all other threads
 * are dead from then on, so that their spans stay valid, blocks of them can be freed, and what
 * comes back is salvaged when it is worth a notice; then what other threads had in hand between two
 * locked sections goes on where it is known. Where it is not known it is lost in the child: a run
 * of pages, notices of some spans, the lists of a granule cache, for each thread that was inside.
 */
#ifndef PS_HEAP_FORK_H
#define PS_HEAP_FORK_H

struct ps_lock;

/* Once, when the engine works. lock: the one that it started under, freed in a child. */
void ps_fork_register(struct ps_lock *lock);

#endif
