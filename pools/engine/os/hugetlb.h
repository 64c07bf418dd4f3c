/* SPDX-License-Identifier: MIT */
/*
 * Which huge pages the system sets aside (hugetlb), by /proc, /sys and a mapping without memory.
 * Callers: os_linux.c, the shim at its start, pools/common. Any thread, no locks; errno is left
 * alone.
 */
#ifndef PS_OS_HUGETLB_H
#define PS_OS_HUGETLB_H

#include "pools/engine/base/bits.h"

#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>

/* The longest huge page of any processor has 16 GiB. */
#define PS_HUGETLB_PAGE_BYTES_LIMIT ((size_t)1 << 40)

/* The flags of mmap that name huge pages of this size, a power of two. */
static inline int ps_hugetlb_flags(size_t page_bytes) {
    return MAP_HUGETLB | (int)((unsigned)ps_log2(page_bytes) << MAP_HUGE_SHIFT);
}

/* The size of the system's usual huge pages in bytes; 0: it has none, or /proc is not there. Six
 * system calls. */
size_t ps_hugetlb_usual_bytes(void);

/* Asks whether the system has huge pages of this size, a power of two; takes none. Returns 0,
 * ENOSYS (it has none), or another errno. Two system calls. */
int ps_hugetlb_probe(size_t page_bytes);

/* The number of pages of this size that may be taken by all processes, in use or not, those that
 * the system may add on demand included; UINT64_MAX where /sys does not tell. */
uint64_t ps_hugetlb_count(size_t page_bytes);

#endif
