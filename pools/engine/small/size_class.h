/* SPDX-License-Identifier: MIT */
/*
 * Size classes: one table of block sizes, built at start from the configuration, and a table from
 * request sizes to classes. A table given at run time costs nothing, because the fast path reads
 * the same bytes in either case.
 *
 * Written once by ps_size_class_start before the first thread begins, read by any thread
 * afterwards.
 */
#ifndef PS_SMALL_SIZE_CLASS_H
#define PS_SMALL_SIZE_CLASS_H

#include "pools/engine/base/compiler.h"
#include "pools/engine/base/config.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Class of requests above every class. */
#define PS_CLASS_NONE PS_CLASS_LIMIT

struct ps_size_class {
    uint32_t block_bytes;  /* size of every block */
    uint32_t factor;       /* for ps_size_class_scaled; 0: its slabs have several granules */
    uint16_t granules;     /* length of a slab */
    uint16_t first;        /* index of the first block used: 0, or 1 in a class with free streaks */
    uint16_t limit;        /* index after the last block used */
    uint32_t scaled_first; /* ps_size_class_scaled of the first block used */
    bool has_streaks;      /* consecutive frees form free streaks */
};

/*
 * The scaled index of a block in a slab of one granule, by its address: 2^PS_SCALED_SHIFT for each
 * block, and more than that of any block for an address inside of one. So one comparison tells
 * whether an address is that of a block below some other, for two instructions, where a division
 * costs twenty cycles.
 *
 * With size = odd << shift, the factor is (m * 2^32 + 2^15) / size for an odd m that has no divisor
 * in common with the size. The product of it and an offset that is index * size is then index *
 * 2^15 modulo 2^32, less than 2^31 / size; of one that leaves a rest, it is 2^32 / size at least,
 * since rest * m is no multiple of the size. (After Lemire, Kaser, Kurz: Faster remainder by direct
 * computation, whose product says only whether there is a rest.)
 */
#define PS_SCALED_SHIFT 15
PS_INLINE uint32_t ps_size_class_scaled(const struct ps_size_class *class, const void *block) {
    return (uint16_t)(uintptr_t)block * class->factor;
}

extern PS_HIDDEN struct ps_size_class ps_size_classes[PS_CLASS_LIMIT];
extern PS_HIDDEN uint32_t ps_size_class_count;
/* With longer classes up to PS_CLASS_BYTES_LIMIT, which partitions have instead of medium blocks:
 * front/partition.h. */
extern PS_HIDDEN uint32_t ps_size_class_all_count;
extern PS_HIDDEN size_t ps_size_class_max_bytes; /* largest request that a class serves */
extern PS_HIDDEN uint8_t ps_size_class_by_8[PS_CLASS_BYTES_LIMIT / 8 + 1]; /* up to there */

/* Requests that are looked up by the byte, which saves two instructions of their malloc. */
#define PS_FEW_BYTES ((size_t)1024)
extern PS_HIDDEN uint8_t ps_size_class_by_1[]; /* PS_FEW_BYTES + 1 */

/* Inaccessible bytes at the end of each slab, without blocks: an OS page from hardening level 2 on,
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

/* The same, of all classes. */
uint32_t ps_size_class_of_apart(size_t bytes, size_t align);

#endif
