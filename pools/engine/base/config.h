/* SPDX-License-Identifier: MIT */
/*
 * The frozen configuration: plain data, written once before the engine starts. shim/config.c
 * fills it from the environment, unit tests by hand; every layer above base may read it. No locks:
 * the initialisation lock of the heap layer publishes it.
 */
#ifndef PS_BASE_CONFIG_H
#define PS_BASE_CONFIG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Maximum number of entries in a size-class table, including the built-in tail. */
#define PS_CLASS_LIMIT 63

/* Maximum block size of a size class, in bytes. */
#define PS_CLASS_BYTES_LIMIT 65536

/* Up to this guard_sample each allocation is counted individually: see harden/guard.h. */
#define PS_GUARD_EXACT 64

/* guard_sample at PS_HARDEN_LONG_QUARANTINE, where nothing sets it. */
#define PS_GUARD_SAMPLE_LONG 1000

/* Maximum number of slots for guarded samples. Each may cost two mappings; a process has about
 * 65,000. */
#define PS_GUARD_SLOTS_LIMIT 16384

/* Levels of `harden` at which a check begins: see harden/hard.h. */
#define PS_HARDEN_ZERO_ON_FREE 1    /* this level zeroes freed blocks and does nothing else */
#define PS_HARDEN_CHECK_BLOCKS 2    /* from this level on, each block is checked individually */
#define PS_HARDEN_LONG_QUARANTINE 3 /* from this level on, the quarantine is longer */
#define PS_HARDEN_CALL_SITES 3      /* from this level on, the heap has parts by call site */
/* No level: small blocks have memory tags and none of these checks; large ones are as at level 3.
 * See harden/mte.h. */
#define PS_HARDEN_MEMORY_TAGS 4

/* In the order of the option's words. */
enum ps_huge {
    PS_HUGE_AUTO,    /* transparent huge pages once the heap is large, ordinary ones before */
    PS_HUGE_THP,     /* request transparent huge pages from the first arena on */
    PS_HUGE_OFF,     /* refuse huge pages, even if the system's default is "always" */
    PS_HUGE_HUGETLB, /* use those that the system has set aside: page/hugetlb.h */
};

struct ps_huge_setting {
    enum ps_huge policy;
    size_t page_bytes; /* of PS_HUGE_HUGETLB, a power of two; 0: not chosen yet */
};

/* Sizes of huge pages that an arena can have. */
#define PS_HUGETLB_BYTES_LEAST ((size_t)2 << 20)
#define PS_HUGETLB_BYTES_MOST ((size_t)1 << 30)

enum ps_foreign {
    PS_FOREIGN_ABORT,  /* free of a foreign pointer: one line, then abort */
    PS_FOREIGN_WARN,   /* one line, then the call is ignored */
    PS_FOREIGN_IGNORE, /* the call is ignored */
};

/* A limit, in one of two forms; both 0: none. */
struct ps_limit_setting {
    size_t bytes;
    uint32_t percent; /* of what the system lets the process have */
};

struct ps_config {
    uint32_t class_bytes[PS_CLASS_LIMIT]; /* block sizes, ascending; unused entries 0 */
    uint32_t class_count;                 /* 0: the built-in table */
    size_t small_max_bytes;               /* larger requests take runs; 0: built-in default */
    size_t mmap_min_bytes;                /* requests from this size on take mappings */
    size_t cache_max_bytes;               /* maximum bytes of cached freed mappings */
    uint32_t purge_delay_ms;              /* time for which a page is free before it is purged; 0:
                                           * immediate */
    struct ps_limit_setting limit;        /* on resident memory: see heap/limit.h */
    struct ps_limit_setting limit_hard;   /* beyond it requests fail */
    struct ps_huge_setting huge;
    enum ps_foreign foreign;
    uint32_t harden;       /* 0 to 3: see harden/hard.h; or PS_HARDEN_MEMORY_TAGS */
    uint32_t guard_sample; /* mean number of allocations per guarded sample; 0: none */
    uint32_t guard_slots;  /* live guarded blocks, 1 to PS_GUARD_SLOTS_LIMIT */
    bool profile;          /* sample allocations: see profile/profile.h; excludes the above */
    bool flight;           /* sample for the flight record, and watch the limit: likewise */
    size_t profile_interval_bytes; /* mean bytes between two samples, > 0 */
    size_t profile_max_bytes;      /* of stacks and live samples */
    uint32_t profile_seed;         /* 0: unpredictable */
    bool thread_bytes;             /* count what each thread frees: see heap/counting.h */
    bool record;        /* count blocks: see record/record.h; excludes hardening and samples */
    size_t trace_bytes; /* of the trace: see record/trace.h */
    void *trace_memory; /* so many bytes, zeroed, for a trace beside `record`; NULL: none */
};

#define PS_KIB(count) ((size_t)(count) << 10)
#define PS_MIB(count) ((size_t)(count) << 20)

/* The defaults that are not zero. Listings and documents read them here. */
#define PS_CONFIG_DEFAULT                                                                          \
    {                                                                                              \
        .mmap_min_bytes = PS_MIB(32), .cache_max_bytes = PS_MIB(64), .purge_delay_ms = 250,        \
        .guard_slots = 256, .profile_interval_bytes = PS_KIB(512),                                 \
        .profile_max_bytes = PS_MIB(16), .trace_bytes = PS_MIB(64),                                \
    }

#endif
