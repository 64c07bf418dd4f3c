/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of a thread that begins to use ps::pool_for (pool_for_fork_test.cpp
 * has the C++ part): the child's threads use the same pool, whatever the other thread was about.
 *
 * The program has a malloc of its own: libc's fork takes the locks of libc's malloc, which the
 * stepped thread may have taken.
 */
#include "pools/engine/base/atomic.h"
#include "tests/unit/fork_step.h"
#include "tests/unit/fresh.h"

#if CAN_STEP

#define ALIGN ((size_t)64) /* of blocks; as much in front of each has its length */

static _Alignas(64) char memory[64 << 20];
static uint64_t memory_used;

void *malloc(size_t bytes) {
    size_t rounded = ((bytes + ALIGN - 1) & ~(ALIGN - 1)) + ALIGN;
    uint64_t begin = ps_add_relaxed(&memory_used, (uint64_t)rounded);
    if (rounded < bytes || begin > sizeof memory - rounded) {
        return NULL;
    }
    *(size_t *)(void *)(memory + begin) = bytes;
    return memory + begin + ALIGN;
}

void free(void *block) { (void)block; }

void *calloc(size_t count, size_t bytes) { return malloc(count * bytes); }

void *aligned_alloc(size_t align, size_t bytes) { return align <= ALIGN ? malloc(bytes) : NULL; }

void *realloc(void *block, size_t bytes) {
    void *longer = malloc(bytes);
    size_t length = block != NULL ? *(size_t *)(void *)((char *)block - ALIGN) : 0;
    if (longer != NULL && length != 0) {
        memcpy(longer, block, length < bytes ? length : bytes);
    }
    return longer;
}

#endif

void pool_for_leave_homes(void);
void pool_for_begin(void);
void pool_for_begin_and_end(void);

FRESH_TEST(a_child_uses_the_pool_while_a_thread_takes_an_idle_home) {
    fork_at_each_step(pool_for_leave_homes, pool_for_begin, pool_for_begin_and_end, 7);
}

FRESH_TEST(a_child_uses_the_pool_while_a_thread_makes_a_home) {
    fork_at_each_step(NULL, pool_for_begin, pool_for_begin_and_end, 61);
}

UNIT_MAIN
