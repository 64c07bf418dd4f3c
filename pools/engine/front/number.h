/* SPDX-License-Identifier: MIT */
/*
 * Numbers of threads, by which they find their fronts where there are no sequences: the lowest that
 * no living thread has. So there are as many fronts as threads that ever allocated at once, up to
 * PS_FRONTS_LOCKED, and the fronts of ended threads serve new ones. Beyond that number threads
 * share numbers. Two threads with one number are slower, and right: they hold a class in turns.
 *
 * A thread whose end is not noticed retains its number.
 *
 * Callers: front.c, front_return.c, heap/front_thread.c. The calling thread only, also in signal
 * handlers. No locks.
 */
#ifndef PS_FRONT_NUMBER_H
#define PS_FRONT_NUMBER_H

#include "pools/engine/base/compiler.h"

#include <stddef.h>
#include <stdint.h>

#define PS_FRONTS_LOCKED 64 /* a bit of a word for each */

/* The number of the calling thread plus 1, and the flag if others may have it, too; 0: none yet. */
extern __thread PS_HIDDEN uint32_t ps_front_number_own __attribute__((tls_model("initial-exec")));
#define PS_FRONT_NUMBER_SHARED 0x100u

/* Gives the calling thread a number. */
size_t ps_front_number_take(void);

/* The number of the calling thread. */
static inline size_t ps_front_number(void) {
    uint32_t own = ps_front_number_own;
    return PS_LIKELY(own != 0) ? (own & ~PS_FRONT_NUMBER_SHARED) - 1 : ps_front_number_take();
}

/* Returns the calling thread's number, if it has one: it ends. */
void ps_front_number_return(void);

/* In the child of a fork, on its only thread: the numbers of the others are free. */
void ps_front_number_fork_child(void);

#endif
