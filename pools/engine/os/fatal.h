/* SPDX-License-Identifier: MIT */
/*
 * Fatal messages: one line on stderr, then abort. Messages are API; tests match them. Uses write(2)
 * only; no allocation, no locks.
 */
#ifndef PS_OS_FATAL_H
#define PS_OS_FATAL_H

#include "pools/engine/base/compiler.h"

#include <stddef.h>

/* Prints "poolshim: <what> 0x<address>\n" and returns. */
void ps_report_address(const char *what, const void *address);

/* As ps_report_address, then raises SIGABRT. */
PS_NORETURN void ps_fatal_address(const char *what, const void *address);

/*
 * Prints "poolshim: <what> 0x<address> (size class <class_bytes>, thread <id>)\n", with the
 * system's number of the calling thread, and raises SIGABRT.
 */
PS_NORETURN void ps_fatal_block(const char *what, const void *block, size_t class_bytes);

#endif
