/* SPDX-License-Identifier: MIT */
/*
 * Heaps of threads that do not run: another thread takes them, so that memory grows with the
 * threads that run and not with those that exist. What a thread has kept for its next calls serves
 * the others; the thread finds its words empty when it runs again, and gets its heap back, or
 * another. After it was taken, a heap goes the way of one whose thread has ended:
 * ps_heap_clear_out.
 *
 * The protocol. A thread stores BUSY in its word x_busy before it reads which heap is its own, and
 * FREE when it is done. A thread that looks for idle heaps
 *   1. asks: swaps ASKED for FREE there, and empties the words that say which heap it is;
 *   2. comes back later, ANSWER_MS at least. ASKED is still there: then the thread has not entered
 * a call since, and any call to come finds its words empty and waits for the registry lock. The
 *      heap is taken. Anything else is there: the words are filled again.
 * A call that entered at the moment of 1 may have read its words before they were emptied while its
 * BUSY was still in the processor's store buffer. That is what the wait is for: it is a million
 * times longer than a store takes, and a thread that does not run has none under way. It stands in
 * for a barrier on the thread's processor, which the kernel would do: membarrier() disturbs every
 * processor that runs a thread of the process, has to be registered at start, and a filter of
 * system calls that the program puts in place later may kill it.
 *
 * A free streak is continued without BUSY, since that touches the thread's own words alone. When
 * the heap is taken, the word that continues it is swapped for an address that no block has. A
 * thread that is at such a free in that moment, or is stopped between its two instructions by a
 * signal handler or a debugger, goes on with the run after that; its words then tell from where,
 * and it frees those blocks again, the long way, when it next enters.
 *
 * What was weighed: restartable sequences need one commit per call, where malloc has three stores;
 * the state of a thread in /proc does not tell of a handler that waits inside of malloc.
 *
 * Only where threads take the fast path: hardened and recorded heaps stay with their threads. Lock:
 * the registry's. Callers: tick.c, registry.c, thread.c.
 */
#ifndef PS_HEAP_TAKE_H
#define PS_HEAP_TAKE_H

#include "pools/engine/heap/heap.h"

/* Once, at start, after the mode: whether heaps are taken in this process. */
void ps_take_start(void);

/* From time to time, by any thread that is BUSY, no lock held: asks for heaps, takes those that
 * were asked for long enough, clears out some of what was taken. */
void ps_take_look(uint64_t now_ms);

/* A span of fresh memory was taken: where many are, heaps are asked for sooner. */
void ps_take_note_fresh(void);

/* Registry lock held: the heap that was asked for, for the calling thread, which needs it. NULL:
 * none. */
struct ps_heap *ps_take_back(void);

/* Registry lock held: the calling thread's last heap, if it was taken and has not become another's;
 * LIVE now. NULL: none. */
struct ps_heap *ps_take_again(void);

/* What the calling thread, which has no heap, has freed by a run that was stopped; its words have
 * no run any more. To be freed again when the thread has a heap, or cannot have one. */
struct ps_late_streak {
    char *from; /* NULL: nothing */
    char *next;
    ptrdiff_t step;
};
struct ps_late_streak ps_take_late_streak(void);
void ps_take_free_late(const struct ps_late_streak *late);

/* The calling thread has this heap, and may be asked for it. */
void ps_take_attach(struct ps_heap *heap);
void ps_take_detach(struct ps_heap *heap);

/* In the child of a fork, by its only thread: ends what another thread was at with its heap. */
void ps_take_fork_child(void);

/* In the child of a fork: another thread held the heap. */
bool ps_take_is_held_by_other(const struct ps_heap *heap);

#endif
