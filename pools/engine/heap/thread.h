/* SPDX-License-Identifier: MIT */
/*
 * Threads and their heaps: acquisition, release at the thread's end, and the taking of heaps of
 * threads that make no calls.
 *
 * Another thread takes the heap of a thread that makes no calls, so that memory grows with the
 * active threads and not with all that exist. The cached memory of the idle thread then serves
 * others. That thread finds its words empty when it runs again, and gets its heap back, or another
 * one. A taken heap is cleared like that of an ended thread: ps_heap_clear_out.
 *
 * The protocol. A thread stores BUSY in its word x_busy before it reads the pointer to its heap,
 * and FREE when it is done. A thread that searches for idle heaps
 *
 *   1. asks: swaps ASKED for FREE there, and empties the words that name the heap;
 *   2. returns after PS_ANSWER_US or more. If ASKED is still there, the thread has not entered a
 *      call since, and any later call finds its words empty and blocks on the registry lock: the
 *      heap is taken. Otherwise the words are filled again.
 *
 * A call that entered at the moment of step 1 may have read its words before they were emptied,
 * while its BUSY was still in the processor's store buffer. The delay covers that: it is a thousand
 * times longer than a store takes, and a thread that does not run has no store under way. It
 * replaces a barrier on the thread's processor, which the kernel could issue by membarrier(). But
 * that disturbs every processor that runs a thread of the process, and must be registered at start.
 * A filter of system calls that the program installs later may kill the process for it.
 *
 * A free streak continues without BUSY, because that touches the thread's own words only. When the
 * heap is taken, the word that continues it is swapped for an address that no block has. A thread
 * may be executing such a free at that moment, or be stopped between its two instructions by a
 * signal handler or a debugger. It then continues the streak afterwards. Its words tell from which
 * block on, and it frees these blocks again, by the slow path, when it next enters.
 *
 * Rejected alternatives: restartable sequences need a single commit per call, where malloc has
 * three stores; the state of a thread in /proc does not reveal a signal handler that blocks inside
 * of malloc.
 *
 * A heap is taken only from an announced thread that is not being joined (thread_record.h).
 * Recorded heaps are not taken: they count the calls of one thread. Taking a hardened heap ends its
 * quarantine: the blocks return to their spans. Lock: the registry's. Callers: start.c,
 * slow_path.c, detached.c, maintenance.c.
 */
#ifndef PS_HEAP_THREAD_H
#define PS_HEAP_THREAD_H

#include "pools/engine/heap/heap.h"

/* Time in which the instructions of another thread that were under way have ended. */
#define PS_ANSWER_US 1000

/*
 * The calling thread's heap; created or reused if it has none. Precondition: the engine has
 * started. NULL when memory is exhausted or the thread is past its clean-up (is_exiting).
 */
struct ps_heap *ps_heap_acquire(void);

/* The same for a call that frees: NULL, too, for a thread that is not announced, which may be past
 * its destructors. Its blocks are transferred to their owners at once. */
struct ps_heap *ps_heap_acquire_to_free(void);

/* Announces the calling thread, before the program's routine: its end will be noticed
 * (thread_record.h), even if it never allocates. */
struct ps_thread_record;
void ps_thread_begin(struct ps_thread_record *record);

/* Called within the first allocation of a thread that was not announced, where it may allocate. The
 * engine's own does nothing. */
PS_HOOK void ps_thread_begun_by_itself(void);

/* After a join of a thread with this record: clears its heap if it has ended without its
 * destructors. */
void ps_thread_joined(struct ps_thread_record *record, bool has_ended);

/* Registers the end of the calling thread with libc, which may allocate. False: it will not be
 * noticed. */
bool ps_thread_will_end(void);

/* Releases the calling thread's heap, as at its end. For tests; threads do so by themselves. */
void ps_heap_give_up(void);

/* Called once, after the start, without a lock: creates the first heap, for the starting thread,
 * and the key by which libc reports the ends of threads. */
void ps_thread_start_first(void);

/* Called once, at start, after the mode: decides whether heaps are taken in this process. */
void ps_take_start(void);

/* Called periodically, by any BUSY thread, without a lock: asks for heaps, takes those that were
 * asked for long enough ago, and clears some of the taken ones. True if a further call soon may
 * find more. */
bool ps_take_tick(uint64_t now_ms);

#endif
