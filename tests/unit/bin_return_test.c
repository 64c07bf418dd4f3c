// sources: tests/unit/fake_os.c
/* SPDX-License-Identifier: MIT */
/* Spans that have left their bin. */
#include "pools/engine/heap/bin_return.h"
#include "tests/unit/engine.h"

ENGINE_HEAPS

#define BLOCKS 10 /* fewer than frees that a current span does not settle for */

FRESH_TEST(a_span_that_has_left_its_bin_drains_with_its_last_block) {
    void *blocks[BLOCKS];
    ps_engine_start();
    for (size_t i = 0; i < BLOCKS; i++) {
        blocks[i] = ps_heap_alloc(48);
    }
    const struct ps_span *span = ps_span_at(blocks[0]);
    ps_thread_enter();
    ps_heap_empty_bin(ps_thread_own(), span->class_index);
    ps_thread_leave();
    CHECK_EQ(span->place, PS_PLACE_AVAILABLE);
    CHECK_EQ(span->used, BLOCKS);
    for (size_t i = 0; i < BLOCKS; i++) {
        ps_heap_free(blocks[i * 7 % BLOCKS]);
    }
    CHECK_EQ(span->used, 0);
    CHECK_EQ(span->carved, span->first); /* it was reset */
}

UNIT_MAIN
