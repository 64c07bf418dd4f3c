/* SPDX-License-Identifier: MIT */
/*
 * Zeroing of freed blocks, and the check that they are still zero. Most blocks here are small, so a
 * call of memset costs more than its work; and a block that was freed recently is still in the
 * store buffer, where a load that spans two stores stalls until both are written. memcmp of a block
 * with itself, shifted by a byte, took 10 ns for 64 bytes for that reason; words take 2. Block
 * sizes are multiples of 8 bytes, and of 16 from 16 bytes on. Callers: hard*.[ch], level_1.c. No
 * state.
 */
#ifndef PS_HARDEN_WIPE_H
#define PS_HARDEN_WIPE_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define PS_WIPE_INLINE_BYTES 256
#define PS_WIPE_LINE_BYTES 64
#define PS_WIPE_LINE_WORDS (PS_WIPE_LINE_BYTES / sizeof(uint64_t))

/* Sixteen bytes, in one store or load if the processor has them. */
typedef uint64_t ps_wipe_word __attribute__((vector_size(16), aligned(8), may_alias));

/* Zeroes a block. */
PS_INLINE void ps_wipe(void *block, size_t bytes) {
    const ps_wipe_word zero = {0, 0};
    char *at = block;
    char *last = at + bytes - sizeof zero;
    if (PS_UNLIKELY(bytes > PS_WIPE_INLINE_BYTES)) {
        memset(block, 0, bytes);
        return;
    }
    if (PS_UNLIKELY(bytes < sizeof zero)) {
        *(uint64_t *)block = 0;
        return;
    }
    for (; at + 2 * sizeof zero <= last; at += 2 * sizeof zero) {
        PS_OPAQUE(at); /* the compiler would emit a call of memset */
        *(ps_wipe_word *)at = zero;
        *(ps_wipe_word *)(at + sizeof zero) = zero;
    }
    *(ps_wipe_word *)at = zero;
    *(ps_wipe_word *)last = zero;
}

/* True when all words of a piece are zero. piece, bytes: multiples of 16. */
PS_INLINE bool ps_is_wiped(const void *piece, size_t bytes) {
    const ps_wipe_word *at = piece;
    const ps_wipe_word *end = (const ps_wipe_word *)((const char *)piece + bytes);
    ps_wipe_word seen = at[0] | end[-1];
    if (bytes >= PS_WIPE_LINE_BYTES) {
        seen |= (end[-2] | end[-3]) | end[-4]; /* may overlap the last line of the loop */
        for (; end - at > 4; at += 4) {
            seen |= (at[0] | at[1]) | (at[2] | at[3]);
        }
    } else if (bytes > 2 * sizeof *at) {
        seen |= at[1];
    }
    return (seen[0] | seen[1]) == 0;
}

/* True when the word with this index is zero in each 64 bytes. bytes: a multiple of 64. */
static inline bool ps_is_wiped_at(const void *piece, size_t bytes, size_t index) {
    const uint64_t *word = (const uint64_t *)piece + index;
    uint64_t seen = 0;
    for (size_t at = 0; at < bytes / sizeof *word; at += PS_WIPE_LINE_WORDS) {
        seen |= word[at];
    }
    return seen == 0;
}

#endif
