/* SPDX-License-Identifier: MIT */
/*
 * See single_path.h.
 */
#include "pools/engine/heap/single_path.h"

#include "pools/engine/front/store.h"
#include "pools/engine/heap/exhausted.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/page/retention.h"

/* NULL: the store has no block. */
static void *take(uint32_t class_index, bool is_any_node, ps_single_prepare *prepare) {
    void *blocks[PS_STORE_BATCH];
    bool is_over = ps_front_thread.end == PS_FRONT_END_OVER;
    size_t most = is_over ? 1 : ps_front_batch(class_index);
    size_t count = ps_store_take(class_index, blocks, most, NULL, is_any_node);
    if (count == 0) {
        return NULL;
    }
    prepare(blocks, count);
    while (count > 1 && ps_front_push(ps_front_thread.own, class_index, blocks[count - 1])) {
        count--;
    }
    if (count > 1) {
        ps_store_give(class_index, &blocks[1], count - 1);
    }
    ps_add_relaxed(&ps_store_x_counts[class_index].x_singles, (uint64_t)1); /* relaxed: a count */
    return blocks[0];
}

static void *grow_and_take(uint32_t class_index, ps_single_prepare *prepare) {
    return ps_front_grow(class_index) ? take(class_index, false, prepare) : NULL;
}

/* A block of the class or the nearest longer one that has any, when the system refuses memory. */
static PS_COLD void *take_present(uint32_t *class_index, size_t align, ps_single_prepare *prepare) {
    for (uint32_t i = *class_index; i != PS_CLASS_NONE; i = ps_exhausted_next(i, align)) {
        void *block = ps_front_pop(ps_front_thread.own, i);
        block = block != NULL ? block : take(i, true, prepare);
        if (block != NULL) {
            *class_index = i;
            return block;
        }
    }
    return NULL;
}

static PS_COLD void *take_last(uint32_t *class_index, size_t aligned_bytes,
                               ps_single_prepare *prepare) {
    ps_mode.hook.reclaim();
    void *block = grow_and_take(*class_index, prepare);
    size_t align = ps_exhausted_align(*class_index, aligned_bytes);
    return block != NULL ? block : ps_exhausted_note(take_present(class_index, align, prepare));
}

void *ps_single_refill(uint32_t *class_index, size_t bytes, size_t aligned_bytes,
                       ps_single_prepare *prepare) {
    ps_front_begin_refill(*class_index, bytes);
    void *block = take(*class_index, !ps_retention_is_usual(), prepare);
    block = PS_LIKELY(block != NULL) ? block : grow_and_take(*class_index, prepare);
    return PS_LIKELY(block != NULL) ? block : take_last(class_index, aligned_bytes, prepare);
}
