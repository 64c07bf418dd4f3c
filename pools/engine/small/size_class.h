/* SPDX-License-Identifier: MIT */
/*
 * Size classes: one table of block sizes, built at start from the configuration, and a table from
 * request sizes to classes. A table given at run time costs nothing, because the fast path reads
 * the same bytes in either case.
 *
 * Written once by ps_size_class_start before the first heap exists, read by any thread afterwards.
 */
#ifndef PS_SMALL_SIZE_CLASS_H
#define PS_SMALL_SIZE_CLASS_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Class of requests above every class: its bin is always empty. */
#define PS_CLASS_NONE PS_CLASS_LIMIT

#define PS_SCALED_SHIFT 15 /* see ps_span_scaled of span.h */

struct ps_size_class {
    uint32_t block_bytes;   /* size of every block */
    uint32_t window_blocks; /* blocks of a span's first window of fresh memory */
    uint32_t factor;        /* see ps_span_scaled of span.h */
    uint16_t granules;      /* length of a span */
    uint16_t first; /* index of the first block used: 0, or 1 in a class with free streaks */
    uint16_t limit; /* index after the last block used */
    uint16_t notice_blocks;        /* frees after which a full span is worth collecting */
    uint32_t scaled_first;         /* ps_span_scaled of the first block used */
    bool has_streaks;              /* consecutive frees form free streaks */
    uint8_t streak_probe_interval; /* frees until a span is first probed for a sequence */
};

extern PS_HIDDEN struct ps_size_class ps_size_classes[PS_CLASS_LIMIT];
extern PS_HIDDEN uint32_t ps_size_class_count;
extern PS_HIDDEN size_t ps_size_class_max_bytes; /* largest request that a class serves */
extern PS_HIDDEN uint8_t ps_size_class_by_8[PS_CLASS_BYTES_LIMIT / 8 + 1]; /* up to there */

/* Requests that are looked up by the byte, which saves two instructions of their malloc. */
#define PS_FEW_BYTES ((size_t)1024)
extern PS_HIDDEN uint8_t ps_size_class_by_1[]; /* PS_FEW_BYTES + 1 */

/* Inaccessible bytes at the end of each span, without blocks: an OS page from hardening level 2 on,
 * if that is a small part of a granule; else 0. */
extern PS_HIDDEN size_t ps_size_class_guard_bytes;

/* Builds the tables. Precondition: ps_size_class_is_valid. */
void ps_size_class_start(const struct ps_config *config);

/* The largest class of the same run if it were not recorded. */
size_t ps_size_class_usual_max_bytes(void);

/* True when a table is ascending, in range, and of multiples of 16 (the first entry may be 8). */
bool ps_size_class_is_valid(const uint32_t *class_bytes, uint32_t count);

/* Class of a request of up to PS_CLASS_BYTES_LIMIT bytes; PS_CLASS_NONE above the largest. */
PS_INLINE uint32_t ps_size_class_of(size_t bytes) {
    return PS_LIKELY(bytes <= ps_size_class_max_bytes) ? ps_size_class_by_8[(bytes + 7) >> 3]
                                                       : PS_CLASS_NONE;
}

/* The same, of up to PS_FEW_BYTES bytes. */
PS_INLINE uint32_t ps_size_class_of_few(size_t bytes) { return ps_size_class_by_1[bytes]; }

/*
 * Smallest class whose blocks have `bytes` at least and are all aligned to align (a power of two up
 * to the granule); PS_CLASS_NONE when there is none. Every block starts at a multiple of its size
 * from a granule boundary, so it is enough that align divides the size.
 */
uint32_t ps_size_class_of_aligned(size_t bytes, size_t align);

#endif
