/* SPDX-License-Identifier: MIT */
/*
 * Recording (POOLSHIM_RECORD): counts the live blocks of each requested size, per thread, at the
 * peaks of the process. Used to choose size classes for a program.
 *
 * While it is on, threads do not take the fast paths (see struct ps_thread_words): malloc and free
 * take the slow paths, which lead here, where a block is counted and then served as usual. Free
 * streaks, guarded samples and hardening are off. While recording is off, nothing here is called.
 *
 * Sizes above every size class are summed up only. The requested size of a block follows from its
 * class if the class serves one size only; otherwise it is stored in a shadow byte
 * (record_sizes.h). A block counts for the thread whose heap owns its span. Each thread has a
 * tally: it writes `made` and `freed` itself, without read-modify-writes; other threads add to
 * x_remote_frees, by one atomic add per remote free.
 *
 *   live of a size, over all tallies == sum of x_made - x_freed - x_remote_frees
 *
 * Live bytes of the process are known to a few per mille, because a tally withholds unpublished
 * changes. Each free checks for a new peak before it counts its block: record_peak.h.
 *
 * Callers: the entry points and hooks of this mode (modes.c); the shim reads through record_peak.h.
 * Any thread; locks only through record_peak.c.
 */
#ifndef PS_RECORD_RECORD_H
#define PS_RECORD_RECORD_H

#include "pools/engine/heap/heap.h"

/* Requests are grouped as size classes can group them: number 1 is up to 8 bytes, 2 up to 16, and
 * one more for each further 16 bytes; 0 means none. */
#define PS_RECORD_SIZES (PS_CLASS_BYTES_LIMIT / 16 + 2)

static inline size_t ps_record_number_of(size_t bytes) {
    bytes += bytes == 0;
    return ((bytes + 15) >> 4) + (bytes > 8);
}

static inline size_t ps_record_bytes_of(size_t number) {
    return number == 1 ? 8 : (number - 1) * 16;
}

struct ps_record_count {
    uint64_t x_made; /* owner writes */
    uint64_t x_freed;
};

struct ps_tally {
    uint64_t level;         /* 0 live bytes since the last publication, plus grain; owner only */
    uint64_t top;           /* 8 level at which a free takes a snapshot; owner only */
    uint64_t limit;         /* 16 level at which malloc publishes; owner only */
    uint64_t grain;         /* 24 bytes; owner only */
    uint64_t x_large;       /* 32 requests above the classes; owner writes */
    uint64_t x_large_bytes; /* 40 their usable bytes */
    struct ps_tally *next;  /* 48 all tallies created so far; constant once on the list */
    uint32_t x_thread;      /* 56 number of the thread, from 1; 0: no running thread */
    uint32_t trace_state;   /* 60 of trace.c; owner only */
    PS_ALIGNED(PS_CACHE_LINE) struct ps_record_count sizes[PS_RECORD_SIZES];
    PS_ALIGNED(4096) uint64_t x_remote_frees[PS_RECORD_SIZES]; /* remote frees */
};

/* Written once, at start. */
extern PS_HIDDEN bool ps_record_x_on;

/* relaxed: a thread that has a heap got it after the start; a thread without one received the block
 * by a transfer that makes this visible. For a foreign pointer either value is right. */
static inline bool ps_record_is_on(void) { return ps_load_relaxed(&ps_record_x_on); }

/* Creates a tally for a heap, or for ended threads; NULL when memory is exhausted. */
struct ps_tally *ps_record_make(void);

/* ---- hooks: see mode.h ---- */

bool ps_record_start(const struct ps_config *config);
bool ps_record_make_state(void **state);
void ps_record_begin(struct ps_heap *heap);
void ps_record_end(struct ps_heap *heap);

/* ---- entry points: see mode.h ---- */

void *ps_record_alloc(struct ps_heap *heap, size_t bytes);
void *ps_record_zalloc(struct ps_heap *heap, size_t bytes);
void *ps_record_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align);
void ps_record_free(struct ps_span *span, void *block, uintptr_t owner_key);
void *ps_record_resize(void *block, size_t bytes);

#endif
