/* SPDX-License-Identifier: MIT */
/*
 * The kernel's figures about this process's memory, from /proc. Owns nothing; called by the
 * statistics. Allocates nothing, takes no lock, leaves errno alone.
 */
#ifndef PS_SHIM_PROCESS_MEMORY_H
#define PS_SHIM_PROCESS_MEMORY_H

#include <stdbool.h>
#include <stdint.h>

/* Figures of the whole process, not of the heap alone. */
struct ps_process_memory {
    uint64_t resident_bytes;
    uint64_t resident_peak_bytes;
    uint64_t huge_bytes; /* in transparent huge pages */
    bool has_resident;
    bool has_resident_peak;
    bool has_huge;
};

/*
 * directory: "/proc/self", elsewhere in tests. Unreadable figures stay 0 with their has_ false.
 * Cost: the kernel walks the page tables, about a millisecond per GiB resident.
 */
void ps_process_memory_read(struct ps_process_memory *memory, const char *directory);

#endif
