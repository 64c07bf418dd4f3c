// marks: slow
// flags: -O2
// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/*
 * Forks after each instruction of a thread that fills a processor's cache, takes from it and
 * returns it (fork_step.h): the child must find no block in it twice, none that is live, and must
 * be able to use everything.
 */
#include "pools/engine/heap/background.h"
#include "pools/engine/heap/cpu_cache.h"
#include "pools/engine/heap/cpu_return.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/announced.h"
#include "tests/unit/engine.h"
#include "tests/unit/fork_step.h"
#include "tests/unit/worker.h"

ENGINE_HEAPS

#define BLOCKS 60

static struct live_block before[BLOCKS]; /* of the main thread; the one that steps frees them */

static void use_the_rest(void) {
    static struct live_block blocks[BLOCKS];
    uint64_t state = 88172645463325252u;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t bytes = engine_random_size(&state) % 256;
        live_start(&blocks[i], ps_heap_alloc(bytes), bytes, i);
        if (before[i].address != NULL) {
            live_end(&before[i]);
        }
    }
    live_end_all(blocks, BLOCKS);
    ps_heap_trim(0);
}

#define CACHED_BYTES 48

static struct worker more[2]; /* make the threads more than two for the fake processor */

static void allocate_one(void *unused) {
    (void)unused;
    ps_heap_free(ps_heap_alloc(CACHED_BYTES));
}

static void allocate_for_others(void) {
    for (int i = 0; i < 2; i++) {
        worker_start(&more[i]);
        worker_do(&more[i], allocate_one, NULL);
    }
    ps_background_count_cpus();
    for (size_t i = 0; i < BLOCKS; i++) {
        live_start(&before[i], ps_heap_alloc(CACHED_BYTES), CACHED_BYTES, i);
    }
}

static void free_some(size_t first, size_t end) {
    for (size_t i = first; i < end; i++) {
        void *block = before[i].address;
        before[i].address = NULL;
        __atomic_signal_fence(__ATOMIC_SEQ_CST); /* the child frees the rest */
        ps_heap_free(block);
    }
}

static void fill_and_empty_a_cache(void) {
    uint32_t class_index = ps_size_class_of(CACHED_BYTES);
    free_some(0, BLOCKS / 2); /* to their span: there is no cache yet */
    ps_thread_enter();
    ps_remote_flush(ps_thread_own());
    for (int i = 0; i < 4; i++) { /* the first makes one */
        ps_cpu_cache_ask(class_index);
    }
    ps_thread_leave();
    free_some(BLOCKS / 2, BLOCKS);
    CHECK_CMP(ps_cpu_cache_blocks(class_index), >=, 8);
    for (int round = 0; round < 2; round++) { /* in the second most return, the newest move */
        void *used[3];
        for (int i = 0; i < 3; i++) {
            ps_thread_enter();
            used[i] = ps_cpu_cache_take(class_index);
            ps_thread_leave();
        }
        for (int i = 0; i < 3; i++) {
            ps_heap_free(used[i]);
        }
        fake_os_advance_ms(2 * PS_RETENTION_SCAN_MS);
        for (int i = 0; i < 3; i++) {
            (void)ps_cpu_return_tick(ps_os_now_ms(), ps_remote_return);
            fake_os_advance_ms(1);
        }
    }
    CHECK_EQ(ps_cpu_cache_blocks(class_index), 3);
    ps_cpu_return_all(ps_remote_return);
    CHECK_EQ(ps_cpu_cache_blocks(class_index), 0);
    ps_heap_give_up();
}

/* No block is cached twice, nor while it is live. */
static void take_from_cache_and_use_the_rest(void) {
    char *taken[2 * BLOCKS];
    size_t count = 0;
    ps_thread_enter();
    while (count < 2 * BLOCKS) {
        taken[count] = ps_cpu_cache_take(ps_size_class_of(CACHED_BYTES));
        if (taken[count] == NULL) {
            break;
        }
        for (size_t i = 0; i < count; i++) {
            CHECK(taken[i] != taken[count]);
        }
        for (size_t i = 0; i < BLOCKS; i++) {
            CHECK((char *)before[i].address != taken[count]);
        }
        count++;
    }
    ps_thread_leave();
    while (count-- > 0) {
        ps_heap_free(taken[count]);
    }
    use_the_rest();
}

FRESH_TEST(a_processor_caches_blocks_and_returns_them) {
    ps_engine_start();
    ps_cpu_may_be_first = true;
    fork_at_each_step(allocate_for_others, fill_and_empty_a_cache, take_from_cache_and_use_the_rest,
                      11);
    worker_stop(&more[0]);
    worker_stop(&more[1]);
}

UNIT_MAIN
