/* SPDX-License-Identifier: MIT */
/*
 * Stores, which x86-64 does not reorder.
 */

#define ps_arch_fence_stores() ps_fence_program_order()
