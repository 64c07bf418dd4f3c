/* SPDX-License-Identifier: MIT */
/*
 * No restartable sequences.
 */

#define PS_HAS_RSEQ 0

static inline uint32_t ps_rseq_cpu(ptrdiff_t offset) { return (uint32_t)offset; }
