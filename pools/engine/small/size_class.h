/* SPDX-License-Identifier: MIT */
/*
 * Size classes: the one table of block sizes, built once at start from the configuration, and the
 * two look-up tables that turn a request into a class. A table given at run time therefore costs
 * nothing: the fast path reads the same bytes either way.
 *
 * Written once by ps_size_class_start before the first heap exists, read by any thread after.
 */
#ifndef PS_SMALL_SIZE_CLASS_H
#define PS_SMALL_SIZE_CLASS_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* What requests above every class are looked up as: a bin that never has anything. */
#define PS_CLASS_NONE PS_CLASS_LIMIT

struct ps_size_class {
    uint32_t block_bytes;   /* size of every block */
    uint32_t window_blocks; /* blocks of a span's first window of virgin memory */
    uint16_t granules;      /* length of a span */
    uint16_t first; /* index of the first block used: 0, or 1 in a class with free streaks */
    uint16_t limit; /* index behind the last block used */
    uint16_t notice_blocks;        /* frees after which a full span is worth looking at again */
    bool has_streaks;              /* frees in sequence are gathered as free streaks */
    bool has_lifo;                 /* the newest frees wait in the bin, see heap/lifo.c */
    uint8_t lifo_limit;            /* how many of them */
    uint8_t streak_probe_interval; /* before a span is first asked whether they come in sequence */
};

extern PS_HIDDEN struct ps_size_class ps_size_classes[PS_CLASS_LIMIT];
extern PS_HIDDEN uint32_t ps_size_class_count;
extern PS_HIDDEN size_t ps_size_class_max_bytes; /* largest request that a class serves */
extern PS_HIDDEN uint8_t ps_size_class_by_8[PS_CLASS_BYTES_LIMIT / 8 + 1];

/* Bytes at the end of each span that hold no block and cannot be accessed: an OS page where blocks
 * are hardened that far, else 0. */
extern PS_HIDDEN size_t ps_size_class_guard_bytes;

/* Builds the tables. The configuration must have passed ps_size_class_is_valid. */
void ps_size_class_start(const struct ps_config *config);

/* True when a table is ascending, in range, of multiples of 16 (8 may be the first entry). */
bool ps_size_class_is_valid(const uint32_t *class_bytes, uint32_t count);

/* Class of a request of up to PS_CLASS_BYTES_LIMIT bytes; PS_CLASS_NONE above the largest. */
PS_INLINE uint32_t ps_size_class_of(size_t bytes) { return ps_size_class_by_8[(bytes + 7) >> 3]; }

/*
 * Smallest class whose blocks hold `bytes` and all lie on multiples of align (a power of two up to
 * the granule); PS_CLASS_NONE when there is none. Every block of a class is a multiple of its size
 * away from a granule boundary, so divisibility of the size is all it takes.
 */
uint32_t ps_size_class_of_aligned(size_t bytes, size_t align);

#endif
