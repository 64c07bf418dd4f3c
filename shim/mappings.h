/* SPDX-License-Identifier: MIT */
/*
 * The program and libraries that are loaded now: where their code lies and how to find the same
 * file again, for symbolisation later and elsewhere. Memory is the caller's; allocates nothing.
 * Takes the loader's lock, none of ours.
 */
#ifndef PS_SHIM_MAPPINGS_H
#define PS_SHIM_MAPPINGS_H

#include <stddef.h>
#include <stdint.h>

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
