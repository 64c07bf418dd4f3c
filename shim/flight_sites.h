/* SPDX-License-Identifier: MIT */
/*
 * The stacks of a flight record: enters those that the file does not have, with their locations and
 * the files of these, and finds the heaviest. Called by flight.c, one thread at a time. Owns the
 * tables below, which are memory of flight.c; allocates nothing.
 */
#ifndef PS_SHIM_FLIGHT_SITES_H
#define PS_SHIM_FLIGHT_SITES_H

#include "pools/engine/profile/profile.h"
#include "shim/flight.h"
#include "shim/process.h"
#include "shim/text.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_FLIGHT_SITES 16384
#define PS_FLIGHT_BUCKETS 1024
#define PS_FLIGHT_GROUPS 2048 /* of stacks, by their two innermost sites */
#define PS_FLIGHT_SHOWN 3

struct ps_flight_site {
    uintptr_t address;
    uint32_t next; /* of the bucket, 0: none */
    uint32_t pool; /* string of a pool's family; the next is its name, if it has one */
};

struct ps_flight_range {
    uintptr_t start;
    uintptr_t limit;
};

struct ps_flight_group {
    uintptr_t sites[2];
    uint64_t live_bytes;
};

/* Zeroed memory, touched as far as it is used. */
struct ps_flight_tables {
    const struct ps_profile_stack *entered; /* the newest stack that was; NULL: none */
    uint64_t next_reading_ms;               /* of the mappings */
    size_t site_count;
    size_t range_count;
    uint32_t buckets[PS_FLIGHT_BUCKETS];
    struct ps_flight_range ranges[PS_MAPPINGS_LIMIT]; /* mappings in the file, by their numbers */
    struct ps_flight_site sites[PS_FLIGHT_SITES];     /* by their numbers */
    struct ps_flight_group groups[PS_FLIGHT_GROUPS];
};

/* The locations without an address. */
void ps_flight_enter_named(struct ps_flight_file *file);

/* Enters the stacks that are new. Reads /proc/self/maps when one leads to an unknown file. */
void ps_flight_enter_stacks(struct ps_flight_file *file, struct ps_flight_tables *tables);

/* Copies the sums of a stack to its place, in the order of the sample types; with the lock of the
 * engine's table. */
void ps_flight_copy_sums(const struct ps_flight_file *file, const struct ps_profile_stack *stack);

/* True if there are any. */
bool ps_flight_has_new(const struct ps_flight_tables *tables);

/* Removes all stacks from the file. */
void ps_flight_forget_stacks(void);

/* Adds the heaviest call sites: "f < g 79.0 MiB, h 2.0 MiB". Reads tables of symbols from the
 * disk. */
void ps_flight_add_heaviest(struct ps_text *text, struct ps_flight_tables *tables);

#endif
