/* SPDX-License-Identifier: MIT */
/*
 * The order of stores on 64-bit ARM.
 */

#define ps_arch_fence_stores() __asm__ volatile("dmb ishst" : : : "memory")
