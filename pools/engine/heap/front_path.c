/* SPDX-License-Identifier: MIT */
/*
 * Slow paths of front_path.h, and the entry points of the plain mode that allocate;
 * front_path_plain.c has the others. No locks of its own.
 */
#include "pools/engine/heap/front_path.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/heap/bootstrap.h"
#include "pools/engine/heap/counting.h"
#include "pools/engine/heap/exhausted.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/large_path.h"
#include "pools/engine/heap/limit.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/medium_path.h"
#include "pools/engine/heap/mode.h"
#include "pools/engine/heap/start.h"
#include "pools/engine/os/bytes.h"
#include "pools/engine/page/retention.h"

uint16_t ps_front_x_rounding[PS_CLASS_LIMIT];

/* ---- alloc ---- */

void ps_front_note_request(size_t class_index, size_t bytes) {
    size_t block_bytes = ps_size_classes[class_index].block_bytes;
    int64_t share = (int64_t)((block_bytes - ps_min(bytes, block_bytes)) * 65535 / block_bytes);
    /* relaxed, both: a mean of the last ones, of which some may be lost. */
    int64_t mean = ps_load_relaxed(&ps_front_x_rounding[class_index]);
    mean = mean != 0 ? mean : share;
    ps_store_relaxed(&ps_front_x_rounding[class_index], (uint16_t)(mean + (share - mean) / 8));
}

uint64_t ps_front_rounding(uint32_t class_index) {
    return ps_load_relaxed(&ps_front_x_rounding[class_index]); /* relaxed: as above */
}

/* A place for a range; NULL: the thread may have no window. */
static ps_range *window_of(size_t class_index) {
    return ps_front_has_windows() ? &ps_front_thread.windows->x_ranges[class_index] : NULL;
}

/* Puts a block that the store has handed out into the front, or back. */
static void put(size_t class_index, void *block) {
    ps_mark_set(block);
    if (PS_UNLIKELY(!ps_front_push(ps_front_thread.own, class_index, block))) {
        ps_store_give((uint32_t)class_index, &block, 1);
    }
}

/* From the store; NULL: it has none. */
static void *take(size_t class_index, bool is_any_node) {
    void *blocks[PS_STORE_BATCH];
    ps_range *window = window_of(class_index);
    ps_range range =
        window != NULL ? ps_windows_next_blocks(ps_front_thread.windows, class_index) : 0;
    size_t most = ps_front_thread.end == PS_FRONT_END_OVER ? 1 : ps_front_batch(class_index);
    size_t count = ps_store_take((uint32_t)class_index, blocks, most,
                                 window != NULL ? &range : NULL, is_any_node);
    if (range != 0) {
        ps_windows_double(ps_front_thread.windows, class_index);
        size_t block_bytes = ps_size_classes[class_index].block_bytes;
        char *lowest = ps_range_lowest(range);
        for (size_t i = 1; i < ps_range_count(range); i++) { /* a free of one is a misuse */
            ps_mark_set(lowest + i * block_bytes);
        }
        ps_mark_clear(lowest);
        /* relaxed: as in ps_front_alloc_fresh. */
        ps_store_relaxed(window, ps_range_without_lowest(range, block_bytes));
        return lowest;
    }
    if (count == 0) {
        return NULL;
    }
    while (count > 1) { /* the lowest leaves first */
        put(class_index, blocks[--count]);
    }
    ps_mark_clear(blocks[0]);
    ps_add_relaxed(&ps_store_x_counts[class_index].x_singles, (uint64_t)1); /* relaxed: a count */
    return blocks[0];
}

bool ps_front_grow(size_t class_index) {
    size_t bytes = (size_t)ps_size_classes[class_index].granules << PS_GRANULE_SHIFT;
    if (ps_limit_is_on() && !ps_limit_make_room(bytes)) {
        return false;
    }
    return ps_store_grow((uint32_t)class_index);
}

static void *grow_and_take(size_t class_index) {
    return ps_front_grow(class_index) ? take(class_index, false) : NULL;
}

/* The same, if the class need not be the one that has no blocks. */
static PS_COLD void *take_present(uint32_t class_index) {
    void *block = ps_front_pop(ps_front_thread.own, class_index);
    if (block != NULL) {
        return ps_front_unmark(block);
    }
    bool has_window = ps_range_count(ps_front_thread.windows->x_ranges[class_index]) != 0;
    return has_window ? ps_front_alloc_fresh(class_index, 0) : take(class_index, true);
}

/* When the system refuses memory: what is cached, then blocks of longer classes, then a medium
 * block. */
static PS_COLD void *take_last(size_t class_index, size_t bytes) {
    ps_front_close_streak();
    ps_mode.hook.reclaim();
    void *block = grow_and_take(class_index);
    if (block == NULL) {
        block = take(class_index, true);
    }
    if (block == NULL && ps_store_grow_lent((uint32_t)class_index)) {
        block = take(class_index, true);
    }
    size_t align = ps_exhausted_align((uint32_t)class_index, bytes);
    for (uint32_t i = (uint32_t)class_index; block == NULL && i != PS_CLASS_NONE;
         i = ps_exhausted_next(i, align)) {
        block = take_present(i);
    }
    return ps_exhausted_note(block != NULL ? block : ps_exhausted_take_medium(bytes, align));
}

void ps_front_begin_refill(size_t class_index, size_t bytes) {
    ps_front_note_request(class_index, bytes);
    ps_maintenance_tick();
    ps_front_reset(ps_front_thread.own, class_index);
    (void)ps_front_raise(ps_front_thread.own, class_index);
}

static PS_COLD void *refill_counted(size_t class_index, size_t bytes) {
    void *block = ps_front_pop(NULL, class_index);
    block = block != NULL ? ps_front_unmark(block) : ps_front_refill(class_index, bytes);
    ps_counting_leave();
    return block;
}

PS_NOINLINE void *ps_front_refill(size_t class_index, size_t bytes) {
    if (PS_UNLIKELY(ps_counting_enter())) {
        return refill_counted(class_index, bytes);
    }
    if (PS_UNLIKELY(class_index == PS_CLASS_NONE)) { /* a request of no bytes: level 1 */
        return ps_mode.entry.alloc(bytes);
    }
    ps_front_begin_refill(class_index, bytes);
    bool is_any_node = !ps_retention_is_usual();
    void *block = take(class_index, is_any_node);
    if (block == NULL && ps_front_thread.streak_step != 0) {
        ps_front_close_streak(); /* its blocks may be of the class */
        block = take(class_index, is_any_node);
    }
    block = PS_LIKELY(block != NULL) ? block : grow_and_take(class_index);
    return PS_LIKELY(block != NULL) ? block : take_last(class_index, bytes);
}

PS_NOINLINE void *ps_front_alloc_locked(size_t class_index, size_t bytes) {
    void *block = ps_front_pop_locked(class_index);
    return block != NULL ? ps_front_unmark(block) : ps_front_alloc_fresh(class_index, bytes);
}

/* ---- above the classes ---- */

bool ps_front_count_event(void) {
    bool is_long = ps_front_thread.armed_bytes == PS_FRONT_EVENT_BYTES;
    bool is_due = ps_front_count_bytes();
    ps_counting_follow();
    if (PS_LIKELY(is_long)) {
        ps_maintenance_tick_now();
    } else if (PS_LIKELY(!ps_counting_is_exact())) {
        ps_maintenance_tick();
    } else if (ps_counting_is_tick_due()) {
        ps_maintenance_tick_now();
    }
    return is_due;
}

static PS_NOINLINE void *large_event(void *block, size_t bytes) {
    ps_counting_note_large(block, bytes);
    bool is_due = ps_front_count_event();
    if (PS_UNLIKELY(is_due) && ps_mode.hook.sample_large != NULL) {
        ps_mode.hook.sample_large(&ps_front_thread.sampler, block, bytes);
    }
    return block;
}

void *ps_front_count_large(void *block, size_t bytes) {
    if (PS_UNLIKELY(block == NULL)) {
        return NULL;
    }
    ps_front_thread.left_bytes -= (int64_t)ps_min(bytes, ps_front_thread.large_most_bytes);
    return PS_LIKELY(ps_front_thread.left_bytes >= 0) ? block : large_event(block, bytes);
}

/* ---- alloc, of any size ---- */

static PS_NOINLINE void *alloc_large(size_t bytes) {
    void *block = NULL;
    if (PS_LIKELY(bytes < ps_medium_limit_bytes)) {
        block = ps_medium_refill(ps_medium_pages_for(bytes), NULL);
    }
    if (PS_UNLIKELY(block == NULL)) {
        ps_maintenance_tick();
        block = ps_large_alloc(bytes, 1, NULL);
    }
    return ps_front_count_large(block, bytes);
}

static inline void *alloc_above(size_t bytes) {
    if (PS_UNLIKELY(bytes >= ps_medium_limit_bytes)) {
        return alloc_large(bytes);
    }
    void *block = ps_medium_pop(ps_medium_pages_for(bytes));
    return PS_LIKELY(block != NULL) ? ps_front_count_large(block, bytes) : alloc_large(bytes);
}

void *ps_front_alloc_plain(size_t bytes) {
    if (PS_UNLIKELY(bytes > ps_size_class_max_bytes)) {
        return alloc_above(bytes);
    }
    ps_front_thread.left_bytes -= (int64_t)bytes;
    if (PS_UNLIKELY(ps_front_thread.left_bytes < 0)) {
        return ps_front_event(bytes);
    }
    return ps_front_alloc_class(ps_size_class_by_8[(bytes + 7) >> 3], bytes);
}

PS_NOINLINE void *ps_front_alloc_slow(size_t bytes) {
    if (PS_UNLIKELY(ps_front_thread.armed_bytes == 0 && !ps_engine_may_serve())) {
        return ps_bootstrap_alloc(bytes, PS_BOOTSTRAP_ALIGN);
    }
    return ps_mode.entry.alloc(bytes);
}

static void *serve_event(size_t class_index, size_t bytes) {
    bool is_due = ps_front_count_event();
    void *block = ps_front_alloc_class(class_index, bytes);
    if (PS_LIKELY(!is_due || block == NULL || class_index == PS_CLASS_NONE)) {
        return block;
    }
    void *sampled = ps_mode.hook.sample(&ps_front_thread.sampler, (uint32_t)class_index, bytes,
                                        ps_slab_of(block));
    if (sampled == NULL) {
        return block;
    }
    ps_add_relaxed(&ps_store_x_counts[class_index].x_singles, (uint64_t)-1); /* it was no take */
    ps_heap_free(block);
    ps_counting_note_replaced(ps_size_classes[class_index].block_bytes);
    return sampled;
}

PS_NOINLINE void *ps_front_event(size_t bytes) {
    return serve_event(ps_size_class_of(bytes), bytes);
}

void *ps_front_alloc_aligned(size_t bytes, size_t align) {
    uint32_t class_index = ps_size_class_of_aligned(ps_max(bytes, 1), align);
    if (class_index == PS_CLASS_NONE) {
        return NULL;
    }
    bytes = ps_size_classes[class_index].block_bytes; /* see ps_exhausted_align */
    ps_front_thread.left_bytes -= (int64_t)bytes;
    return PS_LIKELY(ps_front_thread.left_bytes >= 0) ? ps_front_alloc_class(class_index, bytes)
                                                      : serve_event(class_index, bytes);
}

void *ps_front_zalloc_plain(size_t bytes) {
    if (PS_UNLIKELY(bytes > ps_size_class_max_bytes)) {
        return ps_front_count_large(ps_large_zalloc(bytes), bytes);
    }
    void *block = ps_heap_alloc(bytes);
    return PS_LIKELY(block != NULL) ? ps_bytes_zero_block(block, bytes) : NULL;
}

void *ps_front_alloc_aligned_plain(size_t bytes, size_t align) {
    bool is_small = ps_size_class_of_aligned(ps_max(bytes, 1), align) != PS_CLASS_NONE;
    return PS_LIKELY(is_small) ? ps_front_alloc_aligned(bytes, align)
                               : ps_front_count_large(ps_large_alloc(bytes, align, NULL), bytes);
}

/* ---- free ---- */

static void free_full(size_t class_index, void *block) {
    struct ps_front *own = ps_front_thread.own;
    if (ps_front_raise(own, class_index) && ps_front_push(own, class_index, block)) {
        return;
    }
    void *taken[PS_STORE_BATCH + 1];
    size_t count = 0;
    while (count < ps_front_batch(class_index)) {
        void *newest = ps_front_pop(own, class_index);
        if (newest == NULL) {
            break;
        }
        taken[count++] = newest;
    }
    /* Takes that are none. relaxed: a count. */
    ps_add_relaxed(&ps_store_x_counts[class_index].x_singles, -(uint64_t)count);
    if (!ps_front_open_streak(class_index, block, taken, count) &&
        (count == 0 || !ps_front_push(own, class_index, block))) {
        taken[count++] = block;
    }
    if (count != 0) {
        ps_store_give((uint32_t)class_index, taken, count);
    }
}

static PS_COLD void free_counted(size_t class_index, void *block) {
    ps_counting_add_freed(ps_size_classes[class_index].block_bytes);
    if (!ps_front_push(NULL, class_index, block)) {
        ps_front_free_full(class_index, block);
    }
    ps_counting_leave();
}

PS_NOINLINE void ps_front_free_full(size_t class_index, void *block) {
    if (PS_UNLIKELY(ps_front_thread.own == &ps_front_none) && !ps_front_begin_to_free()) {
        ps_store_give((uint32_t)class_index, &block, 1);
        return;
    }
    ps_counting_follow();
    if (PS_UNLIKELY(ps_counting_enter())) {
        free_counted(class_index, block);
        return;
    }
    ps_maintenance_tick();
    free_full(class_index, block);
}

PS_NOINLINE void ps_front_free_locked(size_t class_index, void *block) {
    if (!ps_front_push_locked(class_index, block)) {
        ps_front_free_full(class_index, block);
    }
}

/* A free of a thread that has no mode yet. */
static PS_COLD void free_first(void *block) {
    if (!ps_bootstrap_is_over()) {
        ps_bootstrap_free(block);
        return;
    }
    ps_engine_start();
    ps_mode.entry.free_block(block);
}

PS_NOINLINE void ps_front_free_other(void *block) {
    if (PS_UNLIKELY(block == NULL)) {
        return;
    }
    if (PS_LIKELY(ps_engine_has_started())) {
        ps_mode.entry.free_block(block);
    } else {
        free_first(block);
    }
}

PS_COLD void ps_front_free_misused(const void *block) {
    ps_slab_misuse(ps_slab_of(block), block, PS_MISUSE_FREE);
}

PS_COLD void *ps_front_overwritten(const void *block) { ps_slab_overwritten(block); }
