/* SPDX-License-Identifier: MIT */
/*
 * The end of a process on purpose: fatal messages, and reports of accesses to inaccessible memory.
 * No allocation, no locks.
 */
#ifndef PS_OS_FATAL_H
#define PS_OS_FATAL_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- messages: one line on stderr, by write(2). They are API; tests match them ---- */

/* Prints "poolshim: <what> 0x<address>\n" and returns. */
void ps_report_address(const char *what, const void *address);

/* As ps_report_address, then raises SIGABRT. */
PS_NORETURN void ps_fatal_address(const char *what, const void *address);

/*
 * Prints "poolshim: <what> 0x<address> (size class <class_bytes>, thread <id>)\n", with the
 * system's number of the calling thread, and raises SIGABRT.
 */
PS_NORETURN void ps_fatal_block(const char *what, const void *block, size_t class_bytes);

/* ---- faults ---- */

/*
 * One handler for SIGSEGV and SIGBUS, in front of the existing ones. A handler that the program
 * installs later replaces it, unless that one calls its predecessor.
 */

enum ps_fault_access {
    PS_FAULT_UNKNOWN, /* not reported by this processor */
    PS_FAULT_READ,
    PS_FAULT_WRITE,
};

struct ps_fault {
    const char *address;         /* accessed address; with the pointer's tag if it is_of_tags */
    uintptr_t instruction;       /* address of the accessing instruction, 0 if unknown */
    enum ps_fault_access access; /* read or write */
    bool is_of_tags;             /* the memory's tag is not the pointer's: mte.h */
};

/*
 * Called on the faulting thread, inside the signal handler: system calls only. Returns true when
 * the fault has been reported; the earlier action is then restored and the instruction runs again,
 * so that it faults with that action (and a core dump shows it). Returns false to pass the fault to
 * the earlier action.
 */
typedef bool ps_fault_claim(const struct ps_fault *fault);

/* Installs the handler, which calls claim first. Called once, at start. Does nothing if the system
 * refuses. */
void ps_fault_watch(ps_fault_claim *claim);

#endif
