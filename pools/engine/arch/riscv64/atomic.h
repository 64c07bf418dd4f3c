/* SPDX-License-Identifier: MIT */
/*
 * The order of stores on RISC-V.
 */

#define ps_arch_fence_stores() __atomic_thread_fence(__ATOMIC_RELEASE)
