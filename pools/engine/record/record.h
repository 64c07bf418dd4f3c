/* SPDX-License-Identifier: MIT */
/*
 * Recording (POOLSHIM_RECORD): how many blocks of each requested size are live, per thread, and
 * what that was at the process's peaks, for who wants to choose size classes for a program.
 *
 * While it is on, threads do not come to the hit paths (see struct ps_thread_words): malloc and
 * free take the slow paths, which lead here, where a block is counted and then served as ever; hot
 * runs are off, guarded samples and hardening too. While it is off nothing here is called.
 *
 * Sizes above every size class are only summed up. What a block was asked for is known by its class
 * where that serves one size only, else it stands in a mark out of band (record_sizes.h). A block
 * counts for the thread whose heap its span belongs to. Each thread has a tally: `made` and `freed`
 * are its own words, without read-modify-writes; `gone` is for the others, by one atomic add for
 * each block that another thread frees.
 *
 *   live of a size, over all tallies == sum of x_made - x_freed - x_gone
 *
 * Live bytes of the process are known to a few per mille: a tally holds back what it has not told
 * yet. Each free asks whether the thread knows of a new peak before it takes its block off:
 * record_peak.h.
 *
 * Callers: through the entry points and hooks of this mode (modes.c); the shim reads through
 * record_peak.h. Any thread; locks only through record_peak.c.
 */
#ifndef PS_RECORD_RECORD_H
#define PS_RECORD_RECORD_H

#include "pools/engine/heap/heap.h"

/* Sizes are told apart as classes can: a request's number is 1 for up to 8 bytes, 2 for up to 16,
 * and one more for each further 16; 0 stands for none. */
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
    uint64_t level;         /*  0 live bytes since the last publication, plus grain; owner only */
    uint64_t top;           /*  8 level at which a free asks for a snapshot; owner only */
    uint64_t limit;         /* 16 level at which malloc publishes; free does below 0. Owner only */
    uint64_t grain;         /* 24 bytes; owner only */
    uint64_t x_large;       /* 32 requests above the classes; owner writes */
    uint64_t x_large_bytes; /* 40 of those, as they were served */
    struct ps_tally *next;  /* 48 all tallies ever made; constant once it is on the list */
    uint32_t x_thread;      /* 56 number of the thread, from 1; 0: of no running one */
    PS_ALIGNED(PS_CACHE_LINE) struct ps_record_count sizes[PS_RECORD_SIZES];
    PS_ALIGNED(4096) uint64_t x_gone[PS_RECORD_SIZES]; /* freed by others */
};

/* Set once, at start. */
extern PS_HIDDEN bool ps_record_x_on;

/* relaxed: a thread that has a heap got it after the start; who hands a block to a thread that has
 * none makes this visible too. For a foreign pointer either answer will do. */
static inline bool ps_record_is_on(void) { return ps_load_relaxed(&ps_record_x_on); }

/* A tally for a new heap, or for ended threads; NULL when memory is out. */
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
