/* SPDX-License-Identifier: MIT */
/*
 * Faults: the report of accesses to inaccessible memory. One handler for SIGSEGV and
 * SIGBUS, in front of those that were there before; what the program installs later replaces it,
 * unless it calls the one before it. Called once, at start; the handler takes no locks.
 */
#ifndef PS_OS_FAULT_H
#define PS_OS_FAULT_H

#include <stdbool.h>
#include <stdint.h>

enum ps_fault_access {
    PS_FAULT_UNKNOWN, /* this processor does not report it */
    PS_FAULT_READ,
    PS_FAULT_WRITE,
};

struct ps_fault {
    const char *address;         /* that was touched */
    uintptr_t instruction;       /* address of the instruction that did, 0 where it is not known */
    enum ps_fault_access access; /* read or write */
};

/*
 * Called on the faulting thread, inside the signal handler: system calls only. True: the fault has
 * been dealt with; the action from before ours is put back and the instruction runs again, so that
 * it faults with that action (a core dump then shows it). False: the earlier action takes over.
 */
typedef bool ps_fault_claim(const struct ps_fault *fault);

/* From now on claim is called first. Does nothing when the system refuses. */
void ps_fault_watch(ps_fault_claim *claim);

#endif
