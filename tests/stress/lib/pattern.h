/* SPDX-License-Identifier: MIT */
/*
 * The contents of a block: every word up to PATTERN_FULL_BYTES, head, tail and a stride beyond, so
 * that large blocks are cheap. Values depend on the seed of the block and on the position. Pure
 * functions over the block's bytes; `bytes` must be 8-aligned.
 */
#ifndef PS_STRESS_PATTERN_H
#define PS_STRESS_PATTERN_H

#include <stddef.h>
#include <stdint.h>

#define PATTERN_FULL_BYTES 1024
#define PATTERN_INTACT SIZE_MAX

void pattern_write(unsigned char *bytes, size_t size, uint64_t seed);

/*
 * Offset of the first byte or word below `limit` that differs from what pattern_write(size, seed)
 * left, or PATTERN_INTACT.
 */
size_t pattern_find_damage(const unsigned char *bytes, size_t size, size_t limit, uint64_t seed);

/* Offset of the first byte that is not zero, or PATTERN_INTACT; samples beyond 256 KiB. */
size_t pattern_find_dirt(const unsigned char *bytes, size_t size);

#endif
