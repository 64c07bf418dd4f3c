/* SPDX-License-Identifier: MIT */
/*
 * The end of the line: one message on stderr, then abort. Messages are API; tests match them.
 * Allocates nothing, uses write(2) only.
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
 * Prints "poolshim: <what> 0x<address> (size class <class_bytes>, thread <id>)\n", the thread being
 * the caller by the system's number, and raises SIGABRT.
 */
PS_NORETURN void ps_fatal_block(const char *what, const void *block, size_t class_bytes);

#endif
