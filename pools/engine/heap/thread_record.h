/* SPDX-License-Identifier: MIT */
/*
 * Records of threads. A heap names its thread by the address of the thread's words, which lie in
 * the memory that libc gave the thread. A record tells how long that memory is the thread's:
 *
 *   - A record exists before its thread does. It is listed by the address of the words when the
 *     thread begins or when pthread_create returns, whichever comes first: before a handle of the
 *     thread is known to a thread that could join it.
 *   - The destructor of the thread's key removes it: the thread has given up its heap.
 *   - A thread that ends by the system call `exit` runs no destructor. Its record is still listed
 *     when libc joins it, or when the next thread begins on the same memory: it is lost, and its
 *     heap is cleared by the thread that notices.
 *   - While a join is under way libc may release the memory at any moment: the heap is not taken.
 *   - Memory of the program's own (pthread_attr_setstack) may end its use without a join once the
 *     thread is detached: the heap of such a thread is not taken.
 *
 * A thread without a record, which libc or a program created without pthread_create and thrd_create
 * of the shim, has a heap that is never taken (thread.h).
 *
 * Records lie in the engine's own memory and are never unmapped. A record is free when its creator,
 * its thread and all joins have released it. Lock: the registry's. Callers: thread.c, shim.
 */
#ifndef PS_HEAP_THREAD_RECORD_H
#define PS_HEAP_THREAD_RECORD_H

#include "pools/engine/heap/heap.h"

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

struct ps_thread_record {
    void (*routine)(void); /* of the program, and its argument: the shim's */
    void *argument;
    struct ps_thread_words *words;
    struct ps_heap *heap; /* attached to the thread; NULL: none */
    struct ps_thread_record *next;
    uint32_t references; /* creator, thread, joins */
    uint32_t joins;      /* under way */
    bool is_listed;
    bool has_ended;
    bool is_on_own_stack; /* the memory is the program's */
    bool is_detached;     /* and may be used again without a join */
};

/* A record for a thread that is about to be created, referenced by its creator and the thread.
 * NULL when memory is exhausted. */
struct ps_thread_record *ps_thread_record_make(bool is_on_own_stack, bool is_detached);

/* Called by the creator: the thread exists; or it does not. Both release the creator's reference.
 * *thread is read only if the thread has not begun: later it may free that memory. */
void ps_thread_record_created(struct ps_thread_record *record, const pthread_t *thread);
void ps_thread_record_dropped(struct ps_thread_record *record);

/* Called by the thread when it begins. Returns the heap of a lost thread that had the same memory,
 * HELD by the caller, and sets is_lost; NULL: it had none. */
struct ps_heap *ps_thread_record_begin(struct ps_thread_record *record, bool *is_lost);

/* Called by the thread at its end. */
void ps_thread_record_end(struct ps_thread_record *record);

/* Before a join: the record of a thread that has not ended by its destructors; NULL: none. */
struct ps_thread_record *ps_thread_record_join(pthread_t thread);

/* After it, if there is a record. has_ended: the thread was joined. Result as of
 * ps_thread_record_begin. */
struct ps_heap *ps_thread_record_joined(struct ps_thread_record *record, bool has_ended,
                                        bool *is_lost);

/* Before a thread is detached. */
void ps_thread_record_detach(pthread_t thread);

/* ---- under the registry lock ---- */

/* Attaches a heap to the calling thread: it may be taken, unless the thread's memory may be
 * released without a join. */
void ps_thread_record_attach(struct ps_heap *heap);
void ps_thread_record_forget_heap(struct ps_heap *heap);

/* False while the words of the heap's thread may be released. */
static inline bool ps_thread_record_is_stable(const struct ps_heap *heap) {
    return heap->record == NULL || heap->record->joins == 0;
}

/* In the child of a fork, on its only thread: only that has a record. */
void ps_thread_record_fork_child(void);

#endif
