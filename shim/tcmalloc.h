/* SPDX-License-Identifier: MIT */
/*
 * gperftools' interfaces, served from this heap: the functions MallocExtension_* of its
 * malloc_extension_c.h (tcmalloc_extension.c), its class MallocExtension (cxx_tcmalloc.c), the
 * names tc_* of its tcmalloc.h (tcmalloc.c, cxx_new.c); and those functions by which programs query
 * Google's tcmalloc. Here is what these have in common. docs/tcmalloc.md explains each figure.
 *
 * Any thread, not in signal handlers. No locks; the census takes the engine's. Every function
 * preserves errno unless stated.
 */
#ifndef PS_SHIM_TCMALLOC_H
#define PS_SHIM_TCMALLOC_H

#include "pools/engine/record/census.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_TCMALLOC_HISTOGRAM 64
#define PS_TCMALLOC_PAGE_BYTES 8192 /* gperftools' */

/* Figures in gperftools' terms, bytes if not stated:
 * heap == application + thread + transfer + central + page_free + page_unmapped. */
struct ps_tcmalloc_figures {
    size_t application;   /* live blocks, and pages of pools */
    size_t thread;        /* free blocks that one thread alone uses: windows, its own front */
    size_t transfer;      /* free blocks in fronts that threads share */
    size_t central;       /* other free parts of slabs */
    size_t page_free;     /* free pages backed by memory, and cached mappings */
    size_t page_unmapped; /* free addresses without memory */
    size_t heap;
    size_t metadata;
    size_t committed;     /* heap less page_unmapped */
    size_t physical;      /* committed and metadata */
    size_t slack;         /* page_free and page_unmapped */
    size_t local;         /* thread and transfer */
    size_t virtual;       /* heap and metadata */
    size_t fragmentation; /* committed less application */
    size_t released;      /* by system calls, so far */
    size_t ever;          /* committed and released */
    size_t purge_count;
    size_t reserve_count; /* arenas and mappings */
    size_t span_count;    /* slabs, runs, mappings */
    size_t thread_count;  /* threads with windows */
    size_t cache_most;    /* bound on the blocks in fronts */
    size_t cache_least;   /* the bound that a program has asked for, on each thread's */
    size_t is_aggressive; /* 1: free memory is released without a delay */
    size_t limit_mib;     /* soft limit of resident memory */
};

/* Fills *out; *census is the one that it is computed from. */
void ps_tcmalloc_read(struct ps_tcmalloc_figures *out, struct ps_census *census);

/* Whose names a caller knows. */
enum ps_tcmalloc_api { PS_TCMALLOC_GPERFTOOLS = 1, PS_TCMALLOC_GOOGLE = 2 };

/* The value of a property. name: of `length` bytes. False: there is no such name. */
bool ps_tcmalloc_get(enum ps_tcmalloc_api api, const char *name, size_t length, size_t *value);

/* False: there is no such name, or it cannot be set. */
bool ps_tcmalloc_set(const char *name, size_t value);

/* Free blocks that only the calling thread uses, in bytes. */
size_t ps_tcmalloc_thread_bytes(void);

/* Returns the calling thread's free blocks to where other threads find them. */
void ps_tcmalloc_empty_thread(void);

/* Returns about so much free memory to the system, less what earlier calls returned beyond their
 * amount. Returns the bytes of this call. */
size_t ps_tcmalloc_release(size_t bytes);

/* gperftools' words for the ownership of an address. */
enum ps_tcmalloc_ownership { PS_TCMALLOC_OWNED = 1, PS_TCMALLOC_NOT_OWNED = 2 };

/* True for an address in a live block, or in a free one of a slab. */
bool ps_tcmalloc_owns(const void *address);

/* gperftools' rate: 1 is the purge delay as configured, 10 a tenth of it, 0 never. */
void ps_tcmalloc_set_rate(double rate);
double ps_tcmalloc_rate(void);

/* ---- tcmalloc_stats.c ---- */

/* Text for a reader, in gperftools' form, ending in NUL, cut where the buffer ends. More detail
 * from 10,000 bytes on. Nothing is written if bytes < 1. */
void ps_tcmalloc_write_stats(char *buffer, int bytes);

/* Numbers of live blocks by the logarithm of their size; above the size classes all count at the
 * mean size of their kind. */
void ps_tcmalloc_count_blocks(int *blocks, size_t *total, int histogram[PS_TCMALLOC_HISTOGRAM]);

/* Checks free memory where blocks are hardened, and ends the process if it was overwritten. */
void ps_tcmalloc_verify_all(void);

/* The same of one live block; NULL: of none. */
void ps_tcmalloc_verify(const void *block);

#endif
