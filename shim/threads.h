/* SPDX-License-Identifier: MIT */
/*
 * pthread_create, which programs find here before libc's: after the program's first thread it
 * starts the background thread (pools/engine/heap/background.h), at a place where the program
 * itself creates a thread, and so may one be created. All else is libc's.
 */
#ifndef PS_SHIM_THREADS_H
#define PS_SHIM_THREADS_H

/* Once, when the library has been loaded: starts the background thread if the setting asks for one
 * in every program. */
void ps_threads_at_start(void);

#endif
