/* SPDX-License-Identifier: MIT */
/*
 * The system's view of this process: its memory, from /proc, for statistics; and the program and
 * libraries that are loaded, for profiles. Owns nothing, allocates nothing, takes no lock, calls
 * the kernel only, leaves errno alone.
 */
#ifndef PS_SHIM_PROCESS_H
#define PS_SHIM_PROCESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- memory ---- */

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
 * directory: "/proc/self", elsewhere in tests. Unreadable figures are 0 with their has_ false.
 * Cost: the kernel walks the page tables, about a millisecond per GiB resident.
 */
void ps_process_memory_read(struct ps_process_memory *memory, const char *directory);

/* ---- mappings ---- */

/* The program and libraries that are loaded now: where their code lies and how to find the same
 * file again, for symbolisation later and elsewhere. Memory is the caller's. */

#define PS_MAPPINGS_LIMIT 1024
#define PS_MAPPINGS_NAME_BYTES ((size_t)256 << 10) /* of all names together */
#define PS_BUILD_ID_BYTES 32

struct ps_mapping {
    uintptr_t start; /* of pages, like the next two */
    uintptr_t limit;
    uint64_t file_offset;
    const char *name; /* "" where there was no room for it */
    uint8_t build_id[PS_BUILD_ID_BYTES];
    size_t build_id_bytes; /* 0: the file has none */
};

/* The program first. Objects that do not fit are left out. */
struct ps_mappings {
    size_t count;
    size_t name_bytes; /* used */
    struct ps_mapping mappings[PS_MAPPINGS_LIMIT];
    char names[PS_MAPPINGS_NAME_BYTES];
};

/* mappings: zeroed memory. */
void ps_mappings_read(struct ps_mappings *mappings);

/* Number of the mapping of an address, from 1; 0: it has none. */
size_t ps_mappings_find(const struct ps_mappings *mappings, uintptr_t address);

#endif
