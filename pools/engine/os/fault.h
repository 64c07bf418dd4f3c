/* SPDX-License-Identifier: MIT */
/*
 * Reports of accesses to inaccessible memory. Installs one handler for SIGSEGV and SIGBUS in front
 * of the existing ones. A handler that the program installs later replaces it, unless that one
 * calls its predecessor. Called once, at start; the handler takes no locks.
 */
#ifndef PS_OS_FAULT_H
#define PS_OS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum ps_fault_access {
    PS_FAULT_UNKNOWN, /* not reported by this processor */
    PS_FAULT_READ,
    PS_FAULT_WRITE,
};

struct ps_fault {
    const char *address;         /* accessed address */
    uintptr_t instruction;       /* address of the accessing instruction, 0 if unknown */
    enum ps_fault_access access; /* read or write */
};

/*
 * Called on the faulting thread, inside the signal handler: system calls only. Returns true when
 * the fault has been reported; the earlier action is then restored and the instruction runs again,
 * so that it faults with that action (and a core dump shows it). Returns false to pass the fault to
 * the earlier action.
 */
typedef bool ps_fault_claim(const struct ps_fault *fault);

/* Installs the handler, which calls claim first. Does nothing if the system refuses. */
void ps_fault_watch(ps_fault_claim *claim);

#endif
