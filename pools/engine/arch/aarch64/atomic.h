/* SPDX-License-Identifier: MIT */
/*
 * The order of stores on 64-bit ARM.
 */

#include "pools/engine/arch/generic/atomic.h"

#define ps_arch_fence_stores() __asm__ volatile("dmb ishst" : : : "memory")
