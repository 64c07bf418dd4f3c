/* SPDX-License-Identifier: MIT */
/*
 * See poison.h.
 */
#include "pools/common/poison.h"

bool ps_poison_is_on;
bool ps_poison_is_memcheck;

/* Runs before any constructor of the program: marks must not begin later. */
__attribute__((constructor(101))) static void look_around(void) {
    ps_poison_is_on = PS_IS_WATCHED;
    ps_poison_is_memcheck = PS_IS_MEMCHECK;
}

PS_COLD void ps_poison_slow(const void *memory, size_t bytes) { PS_MARK_NO_ACCESS(memory, bytes); }

PS_COLD void ps_unpoison_slow(const void *memory, size_t bytes) {
    PS_MARK_UNDEFINED(memory, bytes);
}

PS_COLD void ps_unpoison_defined_slow(const void *memory, size_t bytes) {
    PS_MARK_DEFINED(memory, bytes);
}

void ps_mempool_destroy(const void *pool) {
    if (PS_UNLIKELY(ps_poison_is_memcheck) && PS_MEMPOOL_EXISTS(pool)) {
        PS_MEMPOOL_DESTROY(pool);
    }
}

void ps_mempool_create(const void *pool) {
    if (PS_UNLIKELY(ps_poison_is_memcheck)) {
        ps_mempool_destroy(pool); /* memcheck ends at a second one */
        PS_MEMPOOL_CREATE(pool);
    }
}

void ps_mempool_move(const void *from, const void *to) {
    if (PS_UNLIKELY(ps_poison_is_memcheck)) {
        ps_mempool_destroy(to);
        PS_MEMPOOL_MOVE(from, to);
        PS_MEMPOOL_CREATE(from);
    }
}

void ps_mempool_alloc(const void *pool, const void *block, size_t bytes) {
    if (PS_UNLIKELY(ps_poison_is_memcheck)) {
        PS_MEMPOOL_ALLOC(pool, block, bytes);
    }
}

void ps_mempool_free(const void *pool, const void *block) {
    if (PS_UNLIKELY(ps_poison_is_memcheck)) {
        PS_MEMPOOL_FREE(pool, block);
    }
}
