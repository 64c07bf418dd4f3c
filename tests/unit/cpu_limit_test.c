// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* How many blocks of a class a processor's cache may have. */
#include "pools/engine/heap/cpu_cache.h"
#include "pools/engine/heap/cpu_return.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/page/retention.h"
#include "tests/unit/passed_blocks.h"

ENGINE_HEAPS

#define LONG_BYTES 4096
#define USUAL_BLOCKS (PS_CPU_CACHE_BYTES / LONG_BYTES)
#define BUSY_BLOCKS (PS_CPU_CACHE_BUSY_BYTES / LONG_BYTES)

static uint32_t class_index;

static size_t limit(void) { return ps_cpu_x_caches[0]->x_limit[class_index]; }

/* The limit after many requests that took fresh memory. */
static size_t ask_for_more(void) {
    for (int i = 0; i < 16; i++) {
        ps_cpu_cache_ask(class_index);
    }
    return limit();
}

static void take(uint64_t count) {
    ps_cpu_x_caches[0]->x_state[class_index] += count << PS_CPU_STATE_TAKES_SHIFT;
}

/* Unused blocks return, and limits are judged; the cache has blocks of another class. */
static void pass_a_round(void) {
    worker_do(&owner, allocate, NULL);
    worker_do(&other, free_all, NULL);
    CHECK_CMP(cached(), >, 0);
    fake_os_advance_ms(PS_RETENTION_SCAN_MS);
    for (int i = 0; i < 4; i++) {
        (void)ps_cpu_return_tick(ps_os_now_ms(), ps_remote_return);
        fake_os_advance_ms(1);
    }
}

FRESH_TEST(a_class_from_which_many_are_taken_may_have_more_until_few_are) {
    set_up();
    class_index = ps_size_class_of(LONG_BYTES);
    CHECK_EQ(ask_for_more(), USUAL_BLOCKS);
    take(PS_CPU_CACHE_TAKES_A_BLOCK * (USUAL_BLOCKS + 5));
    CHECK_EQ(ask_for_more(), USUAL_BLOCKS + 5);
    take(PS_CPU_CACHE_TAKES_A_BLOCK * 2 * BUSY_BLOCKS);
    CHECK_EQ(ask_for_more(), BUSY_BLOCKS);
    pass_a_round();
    CHECK_EQ(limit(), BUSY_BLOCKS);
    take(PS_CPU_CACHE_TAKES_A_BLOCK * (USUAL_BLOCKS + 1));
    pass_a_round();
    CHECK_EQ(limit(), USUAL_BLOCKS + 1);
    pass_a_round();
    CHECK_EQ(limit(), USUAL_BLOCKS);
    CHECK_EQ(ask_for_more(), USUAL_BLOCKS);
    tear_down();
}

FRESH_TEST(a_process_of_few_threads_has_the_usual_limit) {
    set_up();
    class_index = ps_size_class_of(LONG_BYTES);
    take(PS_CPU_CACHE_TAKES_A_BLOCK * 2 * BUSY_BLOCKS);
    CHECK_EQ(ask_for_more(), BUSY_BLOCKS);
    tear_down();
    CHECK(!ps_background_is_crowded());
    take(PS_CPU_CACHE_TAKES_A_BLOCK * 2 * BUSY_BLOCKS);
    ps_cpu_cache_judge(ps_cpu_x_caches[0], class_index);
    CHECK_CMP(limit(), <=, USUAL_BLOCKS);
}

UNIT_MAIN
