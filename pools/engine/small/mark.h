/* SPDX-License-Identifier: MIT */
/*
 * Marks of free blocks. The first word of a block in a front, a window or an ended free streak is
 * its address xor 64 random bits. So free() finds a block that was freed already, and malloc one
 * that was written to after its free, whatever happened in between and on whichever thread. Any
 * other word passes for a mark with a probability of 2^-64. A block that leaves has 0 there.
 *
 * (The encoding with a secret follows glibc's safe linking.)
 *
 * Callers: front/, heap/, harden/. Any thread that owns the block. No locks.
 */
#ifndef PS_SMALL_MARK_H
#define PS_SMALL_MARK_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stdint.h>

/* Draws the secret. Called once, before the first slab. */
void ps_mark_start(void);

/* Random bits for an address, constant in this process. */
uint64_t ps_mark_random_of(const void *address);

/* Random bits, drawn by ps_mark_start. Read from outside the process, too. */
extern PS_HIDDEN uintptr_t ps_mark_salt;

PS_INLINE uintptr_t ps_mark_word(const void *block) { return *(const uintptr_t *)block; }
PS_INLINE uintptr_t ps_mark_of(const void *block) { return (uintptr_t)block ^ ps_mark_salt; }
PS_INLINE bool ps_mark_is_set(const void *block) {
    return ps_mark_word(block) == ps_mark_of(block);
}
PS_INLINE void ps_mark_set(void *block) { *(uintptr_t *)block = ps_mark_of(block); }
PS_INLINE void ps_mark_clear(void *block) { *(uintptr_t *)block = 0; }

#endif
