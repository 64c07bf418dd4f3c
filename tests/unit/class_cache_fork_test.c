// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of another thread's work with class caches: see fork_step_test.c.
 */
#include "pools/engine/heap/class_cache.h"
#include "pools/engine/heap/remote.h"

#include "tests/unit/fake_os.h"
#include "tests/unit/fork_step_check.h"

#define BYTES 4096

static void *blocks[8];

static void free_eight(void) {
    for (size_t i = 0; i < 8; i++) {
        blocks[i] = ps_heap_alloc(BYTES);
    }
    for (size_t i = 0; i < 8; i++) {
        ps_heap_free(blocks[i]);
    }
}

static void add_and_take(void) {
    free_eight();
    ps_heap_free(ps_heap_alloc(BYTES));
    ps_heap_give_up();
}

FRESH_TEST(blocks_enter_and_leave) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(NULL, add_and_take, use_everything, 31);
}

/* The blocks that are not returned move to the front of the cache. */
static void return_some(void) {
    is_prelude = true;
    free_eight();
    for (size_t i = 0; i < 3; i++) {
        ps_heap_free(ps_heap_alloc(BYTES));
    }
    ps_thread_enter();
    is_prelude = false;
    ps_class_cache_return(ps_thread.own, PS_CLASS_CACHE_UNUSED, ps_remote_return);
    is_prelude = true;
    ps_thread_leave();
    ps_heap_give_up();
    is_prelude = false;
}

FRESH_TEST(the_oldest_return) {
    busy_granules_max = 16;
    ps_engine_start();
    fork_at_each_step(NULL, return_some, use_everything, 7);
}

UNIT_MAIN
