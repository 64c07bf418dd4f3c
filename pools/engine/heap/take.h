/* SPDX-License-Identifier: MIT */
/*
 * Heaps of threads that make no calls: another thread takes them, so that memory grows with the
 * active threads and not with all that exist. The memory that a thread has cached serves the
 * others; the thread finds its words empty when it runs again, and gets its heap back, or another
 * one. A taken heap is cleared like that of an ended thread: ps_heap_clear_out.
 *
 * The protocol. A thread stores BUSY in its word x_busy before it reads which heap is its own, and
 * FREE when it is done. A thread that searches for idle heaps
 *
 *   1. asks: swaps ASKED for FREE there, and empties the words that name the heap;
 *   2. returns after ANSWER_MS or more. If ASKED is still there, the thread has not entered a call
 *      since, and any later call finds its words empty and waits for the registry lock: the heap is
 *      taken. Otherwise the words are filled again.
 *
 * A call that entered at the moment of step 1 may have read its words before they were emptied,
 * while its BUSY was still in the processor's store buffer. The delay covers that: it is a million
 * times longer than a store takes, and a thread that does not run has no store under way. It
 * replaces a barrier on the thread's processor, which the kernel could issue: but membarrier()
 * disturbs every processor that runs a thread of the process, must be registered at start, and a
 * filter of system calls that the program installs later may kill it.
 *
 * A free streak continues without BUSY, because that touches the thread's own words only. When the
 * heap is taken, the word that continues it is swapped for an address that no block has. A thread
 * that is executing such a free at that moment, or is stopped between its two instructions by a
 * signal handler or a debugger, continues the streak afterwards; its words then tell from which
 * block, and it frees those blocks again, by the slow path, when it next enters.
 *
 * Rejected alternatives: restartable sequences need a single commit per call, where malloc has
 * three stores; the state of a thread in /proc does not reveal a handler that waits inside of
 * malloc.
 *
 * Only if threads take the fast path: hardened and recorded heaps stay with their threads. Lock:
 * the registry's. Callers: maintenance.c, refill.c, thread.c.
 */
#ifndef PS_HEAP_TAKE_H
#define PS_HEAP_TAKE_H

#include "pools/engine/heap/heap.h"

/* Called once, at start, after the mode: decides whether heaps are taken in this process. */
void ps_take_start(void);

/* Called periodically, by any BUSY thread, no lock held: asks for heaps, takes those that were
 * asked for long enough ago, and clears some of the taken ones. True if
 * a further call soon may find more. */
bool ps_take_look(uint64_t now_ms);

/* Blocks that the calling thread, which has no heap, has freed by a stopped streak; reading them
 * resets its words. They must be freed again when the thread has a heap, or cannot have one. */
struct ps_late_streak {
    char *from; /* NULL: none */
    char *next;
    ptrdiff_t step;
};
struct ps_late_streak ps_take_late_streak(void);
void ps_take_free_late(const struct ps_late_streak *late);

/* Declares this heap the calling thread's, which may be asked for it; or ends that. */
void ps_take_attach(struct ps_heap *heap);
void ps_take_detach(struct ps_heap *heap);

#endif
