/* SPDX-License-Identifier: MIT */
/*
 * thread_number.h - the library's own: the number by which a pool finds its data of the calling
 * thread. Numbers are small and are used again when their thread has ended.
 */
#ifndef POOLSHIM_THREAD_NUMBER_H
#define POOLSHIM_THREAD_NUMBER_H

#include <poolshim/common.h>

PS_BEGIN_DECLS

#define PS_THREAD_NUMBER_MAX 1024

/* The number, 1 to PS_THREAD_NUMBER_MAX, in the low half; 0: the thread has none yet, or there is
 * none left. In the high half a serial below 2^31, which is unique, while an ended thread's number
 * is used again; 0 with number 0. */
extern PS_API __thread uint64_t ps_thread_self __attribute__((tls_model("initial-exec")));

PS_END_DECLS

#endif
