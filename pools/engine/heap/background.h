/* SPDX-License-Identifier: MIT */
/*
 * The drivers of periodic work (maintenance.c) apart from the program's own calls: the background
 * thread, and requests of other processes.
 *
 * The background thread works when the program's threads make no calls. One per process, started by
 * the first pthread_create of the program (shim/threads.c), not by a call of malloc: creating a
 * thread allocates, and takes locks of libc.
 *
 * While calls are made it runs every quarter of the purge delay. When none is made for longer than
 * the delay, and nothing is left to do, it sleeps without a time-out; the next call that reads the
 * clock ends its sleep. The calling side reads one word each time it reads the clock, and writes it
 * at most once in a quarter.
 *
 * The word is in the control page (see below), where the command reads it:
 *
 *   OFF     no thread, or none any more
 *   QUIET   runs; no call has read the clock since its last pass
 *   ACTIVE  runs; at least one call has
 *   ASLEEP  sleeps until a call reads the clock, or the second last thread ends
 *
 * Its end. A process ends with its last thread, so the background thread must not be that: the
 * program's last thread ends it first. Some system calls, such as unshare(CLONE_NEWUSER), need a
 * process of one thread, so the process has one again when the join of the second returns: the
 * joining thread ends the background thread, and does the work that is left
 * (ps_maintenance_catch_up). If the second thread is not joined, or too much work is left, the
 * background thread ends by itself, after one and a half purge delays and half a second without
 * work. A thread that ends by the system call `exit` and is not joined counts for good. The child
 * of a fork has none until its first pthread_create.
 *
 * System calls. A program may confine itself to few of them once it has its threads. Those of the
 * start of a thread are made before ps_background_start returns; after it the thread sleeps (futex)
 * and releases memory (madvise, munmap), and reads the clock without a call.
 *
 * Requests. Another process sends a request by the control page. The command `poolshim` finds it as
 * the symbol poolshim_control of the mapped library. It reads and writes the page by
 * process_vm_readv and process_vm_writev, which require the right to trace the process. No signal,
 * no file descriptor, no thread of its own.
 *
 * The other process, which has seen x_request == x_done, stores the command, its argument and 0 for
 * both results; then, by a second call of the system, another number in x_request. The next thread
 * that reads the clock, the background thread if there is one, serves it, a step each time, and
 * stores that number in x_done. Storing the old number withdraws a request. Offsets never change;
 * new fields are appended, and `bytes` includes them. Any other change is another version. The
 * other side: scripts/poolshim_cli/control.py.
 *
 * No locks of its own. Callers: shim/threads.c, thread.c, start.c, maintenance.c.
 */
#ifndef PS_HEAP_BACKGROUND_H
#define PS_HEAP_BACKGROUND_H

#include "pools/engine/base/atomic.h"

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>

/* ---- requests of other processes ---- */

#define PS_CONTROL_MAGIC "poolshim control" /* without a terminator */
#define PS_CONTROL_VERSION 1
#define PS_CONTROL_PAGE_BYTES 4096

enum ps_control_command {
    PS_CONTROL_TRIM = 1, /* release all free memory; x_result_bytes: how much that was */
};

enum ps_control_result {
    PS_CONTROL_DONE = 0,
    PS_CONTROL_UNKNOWN, /* no such command */
};

struct ps_control {
    PS_ALIGNED(PS_CONTROL_PAGE_BYTES)
    char magic[16];          /*  0 */
    uint32_t version;        /* 16 */
    uint32_t bytes;          /* 20 of this struct */
    uint32_t x_request;      /* 24 the other process writes */
    uint32_t x_done;         /* 28 the last request that was served */
    uint32_t x_command;      /* 32 enum ps_control_command; the other process */
    uint32_t x_result;       /* 36 enum ps_control_result */
    uint64_t x_argument;     /* 40 the other process */
    uint64_t x_result_bytes; /* 48 */
    uint32_t x_background;   /* 56 enum ps_background_state: which thread answers */
};

_Static_assert(offsetof(struct ps_control, x_background) == 56, "the command reads it there");

/* Exported as poolshim_control; protected: no other library's. Inside only the hidden name is used:
 * clang accesses protected data directly, which the linker of Debian 11, binutils 2.35, refuses. */
extern struct ps_control ps_control_page;
extern struct ps_control poolshim_control __attribute__((visibility("protected")));

/* The pending request; 0: none. */
static inline uint32_t ps_control_request(void) {
    /* acquire: pairs with the system call of the other process; the command is visible. */
    uint32_t request = ps_load_acquire(&ps_control_page.x_request);
    /* relaxed: another thread may serve it, too. */
    return request != ps_load_relaxed(&ps_control_page.x_done) ? request : 0;
}

/* A step of a request released so much; and it is served. */
void ps_control_add(uint64_t bytes);
void ps_control_finish(uint32_t request, enum ps_control_result result);

/* ---- the thread ---- */

enum ps_background_state {
    PS_BACKGROUND_OFF = 0,
    PS_BACKGROUND_QUIET = 1, /* odd: a call that reads the clock has something to write */
    PS_BACKGROUND_ACTIVE = 2,
    PS_BACKGROUND_ASLEEP = 3,
};

void ps_background_note_slow(void);

/* Notes that a thread of the program has read the clock. */
PS_INLINE void ps_background_note(void) {
    /* relaxed: the value is stale only for as long as a store takes to arrive. Before the thread
     * sleeps, the word has not been ACTIVE for longer than the purge delay. */
    if (PS_UNLIKELY((ps_load_relaxed(&ps_control_page.x_background) & 1) != 0)) {
        ps_background_note_slow();
    }
}

/* The work of one pass of the thread. Returns after how many milliseconds there is more to do; 0:
 * nothing was found. No unbounded work: ps_background_stop blocks until it ends. */
typedef uint32_t ps_background_job(uint64_t now_ms);

/* libc's. */
typedef int ps_background_create(pthread_t *thread, const pthread_attr_t *attributes,
                                 void *(*routine)(void *), void *argument);

/* Joins the thread, by libc's pthread_join. A program that interposes that defines this function,
 * too. */
PS_HOOK void ps_background_join(pthread_t ended);

/* Starts the thread unless it runs, and blocks until it does, for 100 ms at most. Any thread,
 * outside of malloc; the engine has started. A refusal by the system has no effect. */
void ps_background_start(ps_background_create *create, ps_background_job *job);

/* Before that: the thread does not end by itself where the program has one thread. */
void ps_background_keep(void);

/* Notes that a thread is about to be created, and has not begun. Counts the processors before the
 * first one. */
void ps_background_thread_created(void);

/* Notes that it has begun, or was not created. */
void ps_background_thread_seen(void);

/* Number of threads of the program that have begun and have not ended. */
uint32_t ps_background_threads(void);

/* Counts the processors that the process may use: by a system call, which a filter of the program's
 * may forbid later. */
void ps_background_count_cpus(void);

/* Notes that a thread has begun, and its end will be noticed; that such a thread has ended. */
void ps_background_thread_begun(void);
void ps_background_thread_ended(void);

/* Ends the background thread, and returns after its end. For tests, too. */
void ps_background_stop(void);

/* True if one thread of the program is left, and none is being started. */
bool ps_background_may_end(void);

/* In the child of a fork, by its only thread: whether that counts as begun. */
void ps_background_fork_child(bool has_begun);

#endif
