/* SPDX-License-Identifier: MIT */
/*
 * Copying and filling memory, in two kinds.
 *
 * Blocks of the program: ps_bytes_copy_block, ps_bytes_fill_block. These call libc's functions,
 * which are as fast as the processor allows, by names that no program interposes to count its own
 * copies. A function that is interposed even so may allocate; so callers have no lock, and the
 * engine's state is complete.
 *
 * All else: ps_bytes_move, ps_bytes_fill, which call nothing. shim/bytes.c gives them the names by
 * which the compiler calls them. No state.
 */
#ifndef PS_OS_BYTES_H
#define PS_OS_BYTES_H

#include "pools/engine/base/compiler.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- blocks of the program ---- */

/* NULL where libc has no such symbol (musl). The last argument is the room at the target. */
#define PS_BYTES_OF_LIBC(name, second, symbol)                                                     \
    static void *name(void *to, second, size_t bytes, size_t room) __attribute__((weakref(symbol)))
PS_BYTES_OF_LIBC(ps_bytes_libc_copy, const void *from, "__memcpy_chk");
PS_BYTES_OF_LIBC(ps_bytes_libc_fill, int byte, "__memset_chk");

/* The two do not overlap. */
PS_INLINE void ps_bytes_copy_block(void *to, const void *from, size_t bytes) {
    if (PS_LIKELY(ps_bytes_libc_copy != NULL)) {
        (void)ps_bytes_libc_copy(to, from, bytes, SIZE_MAX);
    } else {
        memcpy(to, from, bytes);
    }
}

/* Zeroes; returns the block. */
PS_INLINE void *ps_bytes_zero_block(void *block, size_t bytes) {
    return PS_LIKELY(ps_bytes_libc_fill != NULL) ? ps_bytes_libc_fill(block, 0, bytes, SIZE_MAX)
                                                 : memset(block, 0, bytes);
}

/* ---- all else ---- */

/* As memmove: the two may overlap. */
void *ps_bytes_move(void *to, const void *from, size_t bytes);

/* As memset. */
void *ps_bytes_fill(void *to, int byte, size_t bytes);

#endif
