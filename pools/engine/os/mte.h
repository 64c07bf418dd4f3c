/* SPDX-License-Identifier: MIT */
/*
 * Memory tags: the Memory Tagging Extension of 64-bit ARM has four bits for each 16 bytes of
 * memory, and four bits of each pointer, which the processor compares at each access. Once
 * ps_mte_start has succeeded, memory that ps_os_protect makes accessible has tags, 0 at first and
 * after each purge; a pointer with another tag than its memory faults.
 *
 * The kernel switches the comparison on for each thread; threads inherit it from their creator, and
 * the child of a fork from its parent. A program that is executed begins without.
 *
 * Callers: front/, harden/, the start-up code of shim/. Any thread, except ps_mte_start. No locks.
 */
#ifndef PS_OS_MTE_H
#define PS_OS_MTE_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include PS_ARCH_PART(mte.h)

#define PS_MTE_SHIFT 56 /* of the tag in a pointer; the upper four bits are unused */
#define PS_MTE_TAGS 16

/* The system's bit for accessible memory with tags; 0: none has any. Written once. */
extern PS_HIDDEN long ps_mte_access;
PS_INLINE bool ps_mte_is_on(void) { return PS_MTE_HAS_INSTRUCTIONS && ps_mte_access != 0; }

/* Switches the comparison on for the calling thread: called by the first one, before the first
 * block. Returns false, with nothing changed, where processor or kernel have no memory tags. */
bool ps_mte_start(void);

/* A pointer without its tag: the address by which all tables are searched. */
PS_INLINE char *ps_mte_strip(const void *pointer) {
    return (char *)((uintptr_t)pointer & (((uintptr_t)1 << PS_MTE_SHIFT) - 1));
}

PS_INLINE unsigned ps_mte_tag(const void *pointer) {
    return (unsigned)((uintptr_t)pointer >> PS_MTE_SHIFT);
}

/* Gives memory the tag of the pointer to it. bytes: a multiple of 16, at least 16. Stores of a tag
 * may overlap, so that no part needs a loop of its own. */
PS_INLINE void ps_mte_fill(char *pointer, size_t bytes) {
    for (; bytes > 128; bytes -= 128, pointer += 128) {
        ps_mte_store_32(pointer, 0);
        ps_mte_store_32(pointer, 1);
        ps_mte_store_32(pointer, 2);
        ps_mte_store_32(pointer, 3);
    }
    if (bytes == 16) {
        ps_mte_store_16(pointer);
        return;
    }
    char *last = pointer + bytes - 32;
    ps_mte_store_32(pointer, 0);
    ps_mte_store_32(last, 0);
    if (bytes > 64) {
        ps_mte_store_32(pointer, 1);
        ps_mte_store_32(last - 32, 0);
    }
}

#endif
