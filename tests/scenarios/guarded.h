/* SPDX-License-Identifier: MIT */
/*
 * Guarded blocks, under POOLSHIM_GUARD_SAMPLE=1: each lies at random at the begin or at the end of
 * its pages; a scenario names the side that it needs. Functions whose names the report should
 * show are exported by the program (flags: -rdynamic). One thread.
 */
#ifndef PS_TESTS_GUARDED_H
#define PS_TESTS_GUARDED_H

#include "claim.h"

#include <malloc.h>

enum guarded_side { GUARDED_BEGIN, GUARDED_END };

#define GUARDED_TRIES 100

/* Without the shim's guarded samples there is nothing to see; the usable size shows that. */
__attribute__((unused)) static int guarded_is(void *block, size_t size) {
    return malloc_usable_size(block) == size;
}

/* A guarded block whose pages begin with it, or end with it up to alignment. size: odd, so that no
 * ordinary block has just that usable size. */
__attribute__((noinline, unused)) void *allocate_here(size_t size, enum guarded_side side) {
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (int i = 0; i < GUARDED_TRIES; i++) {
        char *block = claim_hide(malloc(size));
        CLAIM(block != NULL && guarded_is(block, size));
        size_t rest = side == GUARDED_BEGIN ? (uintptr_t)block % page
                                            : (page - ((uintptr_t)block + size) % page) % page;
        if (rest < 16) {
            return block;
        }
        free(block);
    }
    claim_failed(__FILE__, __LINE__, "a guarded block on that side");
}

/* free by a function with a name. */
__attribute__((noinline, unused)) void free_here(void *block) {
    free(block);
    __asm__ volatile("" : : : "memory");
}

#endif
