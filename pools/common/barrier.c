/* SPDX-License-Identifier: MIT */
/*
 * membarrier(2), private and expedited: Linux 4.14 and later. The numbers are those of
 * linux/membarrier.h, which older systems lack. A fork's child is registered as its parent is.
 */
#include "pools/common/barrier.h"

#include "pools/engine/os/syscall.h"

enum { BARRIER = 1 << 3, REGISTER = 1 << 4 };

static bool command(long number) {
    return !ps_syscall_failed(ps_syscall3(SYS_membarrier, number, 0, 0));
}

bool ps_barrier_is_available(void) { return command(REGISTER) && command(BARRIER); }

bool ps_barrier_everywhere(void) {
    return command(BARRIER) || ps_barrier_is_available(); /* that makes one, too */
}
