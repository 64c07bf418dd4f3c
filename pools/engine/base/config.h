/* SPDX-License-Identifier: MIT */
/*
 * The frozen configuration: plain data, filled once before the first heap exists and never
 * written again. Owns nothing else. shim/config.c fills it from the environment; unit tests fill it
 * by hand; every layer above base may read it. No locks: it is published by the initialisation
 * lock of the heap layer.
 */
#ifndef PS_BASE_CONFIG_H
#define PS_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Most entries of a size-class table, the built-in tail included. */
#define PS_CLASS_LIMIT 63

/* Largest block that a size class may have, in bytes. */
#define PS_CLASS_BYTES_LIMIT 65536

/* Up to this guard_sample, each allocation is counted by itself: see harden/guard.h. */
#define PS_GUARD_EXACT 64

/* Most slots for guarded samples; each may cost two mappings, of which a process has some 65000. */
#define PS_GUARD_SLOTS_LIMIT 16384

/* Levels of `harden`, at which something begins: see harden/hard.h. */
#define PS_HARDEN_ZERO_ON_FREE 1    /* at this level blocks are zeroed, no more */
#define PS_HARDEN_CHECK_BLOCKS 2    /* from this level on, blocks are checked one by one */
#define PS_HARDEN_LONG_QUARANTINE 3 /* from this level on, they wait longer */

enum ps_thp {
    PS_THP_AUTO,   /* huge pages once the heap is large, ordinary ones before */
    PS_THP_ALWAYS, /* request huge pages from the first arena on */
    PS_THP_NEVER,  /* refuse them, also where the system's default is "always" */
};

enum ps_foreign {
    PS_FOREIGN_ABORT,  /* freeing a pointer that is not ours: one line, then abort */
    PS_FOREIGN_WARN,   /* one line, then the call is ignored */
    PS_FOREIGN_IGNORE, /* the call is ignored */
};

struct ps_config {
    uint32_t class_bytes[PS_CLASS_LIMIT]; /* block sizes, ascending; unused entries 0 */
    uint32_t class_count;                 /* 0: the built-in table */
    size_t small_max_bytes;               /* above this, page runs; 0: built-in default */
    size_t mmap_min_bytes;                /* from here on, a mapping of its own */
    size_t cache_max_bytes;               /* freed mappings kept for reuse, at most */
    uint32_t purge_delay_ms;              /* idle this long, a page returns to the OS; 0: at once */
    enum ps_thp thp;
    enum ps_foreign foreign;
    uint32_t harden;       /* 0 to 3: see harden/hard.h */
    uint32_t guard_sample; /* about one in so many allocations is guarded; 0: none */
    uint32_t guard_slots;  /* guarded blocks at a time, 1 to PS_GUARD_SLOTS_LIMIT */
    bool record; /* blocks are counted: see record/record.h; neither hardened nor guarded then */
};

/* The defaults; the one place that states them is shim/config.def, a test holds the two equal. */
#define PS_CONFIG_DEFAULT                                                                          \
    {                                                                                              \
        .small_max_bytes = 0, .mmap_min_bytes = (size_t)32 << 20,                                  \
        .cache_max_bytes = (size_t)64 << 20, .purge_delay_ms = 1000, .thp = PS_THP_AUTO,           \
        .foreign = PS_FOREIGN_ABORT, .harden = 0, .guard_sample = 0, .guard_slots = 256,           \
        .record = false,                                                                           \
    }

#endif
