/* SPDX-License-Identifier: MIT */
/*
 * The trace (POOLSHIM_TRACE): each allocation and each free, in order, with stack, size and thread,
 * for `poolshim advise` and `poolshim compare --trace`. A part of the recording: blocks are counted
 * as record.h says, and entered here.
 *
 * Single sampled blocks do not show in which order the blocks of a call site die, or whether they
 * die together. So windows are traced: ranges of successive allocations, of all sites and threads.
 * Within a window every allocation is an event; the free of each of its blocks is one, whenever it
 * comes. The first window is half of all that may be traced, so short programs are traced whole;
 * the others follow at distances that grow by half each time. An allocation represents those up to
 * the next window.
 *
 *   allocations in all windows <= event_limit / 2, so that each of them can have its free
 *
 * The trace lies in memory that the shim maps from a file: nothing must be written at the end, and
 * a process that is killed leaves what it has. Three parts: this header, the stacks (a count and
 * then the sites, innermost first; a stack's name is its place in words), the events. An event's
 * place is its order: an allocation takes it when the block is there, a free before it is freed.
 *
 * A resize in place counts as a free and an allocation. A thread past its destructors
 * is traced only when it frees. Any thread; no locks. Callers: modes.c, the shim.
 */
#ifndef PS_RECORD_TRACE_H
#define PS_RECORD_TRACE_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PS_TRACE_MAGIC 0x3245434152545350 /* "PSTRACE2" */
#define PS_TRACE_FRAMES 24                /* of a stack, the innermost */
#define PS_TRACE_WINDOWS 33               /* the long one and the others */
#define PS_TRACE_BYTES_MIN ((size_t)64 << 10)

enum ps_trace_kind { PS_TRACE_NONE = 0, PS_TRACE_MADE, PS_TRACE_FREED };
#define PS_TRACE_RESIZED 4 /* a flag of the kind: within a realloc */
#define PS_TRACE_ZEROED 8  /* likewise: by calloc */

/* Read by poolshim_cli/advise/trace.py. All zero: it was claimed and not written yet. */
struct ps_trace_event {
    uint64_t address;
    uint32_t bytes;      /* requested; PS_TRACE_MADE only; above 4 GiB: 4 GiB - 1 */
    uint32_t stack;      /* 0: none was taken */
    uint32_t made_count; /* allocations before this moment, modulo 2^32 */
    uint16_t thread;     /* 0: one past its destructors */
    uint8_t kind;        /* enum ps_trace_kind, and the flags */
    uint8_t align_shift; /* of PS_TRACE_MADE: the alignment is 1 << it; 0: none was requested */
};

/* The same; read together with it. */
struct ps_trace_header {
    uint64_t magic;       /* written last */
    uint64_t stack_begin; /* bytes from here, as the next */
    uint64_t stack_end;
    uint64_t event_begin;
    uint64_t event_limit;
    uint64_t maps_begin; /* text of /proc/self/maps, by the shim */
    uint64_t maps_end;
    uint64_t window_count;
    uint64_t window_starts[PS_TRACE_WINDOWS]; /* allocations before it */
    uint64_t window_ends[PS_TRACE_WINDOWS];
    uint64_t x_stack_words; /* used */
    uint64_t x_event_count;
    uint64_t x_made_count; /* all allocations of the process, and their bytes */
    uint64_t x_made_bytes;
    uint64_t x_lost_stack_count; /* stacks that were not recorded */
    uint64_t unwind_bytes;       /* resident tables that the trace alone reads, by the shim */
    uint64_t x_peak_rss_bytes;   /* of the process within the first window, without this file */
};

/* Constant after the start. */
bool ps_trace_is_on(void);

/* Updates the peak RSS, at the end of the process. */
void ps_trace_note_peak(void);

/* ---- hooks and entry points: see mode.h ---- */

bool ps_trace_start(const struct ps_config *config);
void *ps_trace_alloc(size_t bytes);
void *ps_trace_zalloc(size_t bytes);
void *ps_trace_alloc_aligned(size_t bytes, size_t align);
struct ps_partition;
struct ps_partition_request;
void *ps_trace_alloc_in(struct ps_partition *partition, const struct ps_partition_request *request);
void ps_trace_free(void *block);
void *ps_trace_resize(void *block, size_t bytes);
void ps_trace_fork_child(void);

#endif
