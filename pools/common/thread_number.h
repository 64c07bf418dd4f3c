/* SPDX-License-Identifier: MIT */
/*
 * Numbers of threads, for pools that have an entry for each thread that uses them. A number belongs
 * to one thread from its first request to the thread's end, then to the next one that requests
 * some; with it goes what pools have under it. A number that no thread has can be claimed for a
 * moment, to take from such an entry. No locks. Callers: bounded/, retire/.
 */
#ifndef PS_COMMON_THREAD_NUMBER_H
#define PS_COMMON_THREAD_NUMBER_H

#include <poolshim/thread_number.h>

/* The parts of ps_thread_self. */
static inline uint32_t ps_thread_number(void) { return (uint32_t)ps_thread_self; }
static inline uint32_t ps_thread_serial_of(uint64_t self) { return (uint32_t)(self >> 32); }

/* The calling thread's number, given to it if need be. 0: none is left, or the thread is past its
 * end. O(1). */
uint32_t ps_thread_number_ask(void);

/* Makes a number that no thread has the caller's for the moment, so that all that its last holder
 * did is visible. False: it is in use. */
bool ps_thread_number_claim(uint32_t number);

/* The serial of the thread that has a number; 0: none has, and what the last one did is visible. */
uint32_t ps_thread_number_holder(uint32_t number);

/* Ends a claim. */
void ps_thread_number_release(uint32_t number);

#endif
