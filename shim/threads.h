/* SPDX-License-Identifier: MIT */
/*
 * The functions that create, join and detach threads, which programs find here before libc's. Each
 * calls libc's, or that of a library preloaded after this one.
 *
 * pthread_create and thrd_create announce the thread (pools/engine/heap/thread.h), and start the
 * background thread (pools/engine/heap/background.h) after the program's first: where the program
 * itself creates a thread, one may be created. The joins (joins.c) end it when one thread is left.
 */
#ifndef PS_SHIM_THREADS_H
#define PS_SHIM_THREADS_H

/* Once, when the library has been loaded: starts the background thread if the setting asks for one
 * in every program. */
void ps_threads_at_start(void);

/* Starts the background thread if it does not run, and POOLSHIM_BACKGROUND does not forbid it. It
 * does not end where the program has one thread. */
void ps_threads_keep_background(void);

/* The next definition of a function after this library's; looked up once. NULL: there is none. */
void *ps_next_function(void **x_found, const char *name);

#endif
