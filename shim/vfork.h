/* SPDX-License-Identifier: MIT */
/*
 * vfork, and clone of a process that shares its parent's memory while the parent is suspended. The
 * child may use the heap, as it may that of libc: pools/engine/os/vfork.h. Exported where threads
 * can have restartable sequences; elsewhere programs call libc's. A child made by the system call
 * itself is not covered.
 */
#ifndef PS_SHIM_VFORK_H
#define PS_SHIM_VFORK_H

#include "pools/engine/os/vfork.h"

/* Called by vfork's code, which names them. */
PS_USED struct ps_vfork_way ps_vfork_begin(void);
PS_USED int ps_vfork_failed(int error);

#endif
