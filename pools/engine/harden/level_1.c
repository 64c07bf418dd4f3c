/* SPDX-License-Identifier: MIT */
/*
 * See level.h. A block is zeroed when it is freed, by the freeing thread: blocks of its own spans
 * on a separate path, those of a free streak when the streak ends. No locks of its own.
 *
 * That path has the tests of the fast path, and one more: a block of the open free streak has no
 * link by which a double free would be detected, and the streak must not grow over a free block.
 */
#include "pools/engine/harden/level.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_large.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/plain.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/resize.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/os.h"
#include "pools/engine/small/span_remote.h"

#include <string.h>

bool ps_level_1_start(const struct ps_config *config) {
    ps_stray_start(config);
    ps_hard_start(config);
    ps_guard_start(config);
    return true;
}

void *ps_level_1_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align) {
    return bytes == 0 && align <= PS_ZERO_ALIGN ? ps_zero_alloc()
                                                : ps_plain_alloc_aligned(heap, bytes, align);
}

/* ---- free ---- */

/* Handles a block in the span of this thread's free streak: it may be part of the streak, or a
 * block that the streak would reach later. */
static void leave_streak(struct ps_heap *heap, const struct ps_span *span, const char *block) {
    ptrdiff_t distance = block - heap->streak_first;
    ptrdiff_t length = ps_thread.streak_next - heap->streak_first;
    bool is_in_streak =
        length > 0 ? (size_t)distance < (size_t)length : (size_t)-distance < (size_t)-length;
    if (PS_UNLIKELY(is_in_streak)) {
        ps_misuse_free(span, block);
    }
    ps_streak_close(heap);
}

/* Frees a block that has passed the tests of the fast path. */
static PS_NOINLINE void free_in(struct ps_span *span, void *block) {
    ps_wipe(block, span->block_bytes);
    if (PS_UNLIKELY(ps_heap_push(span, block))) {
        ps_heap_free_event(block, span);
    }
    ps_thread_leave();
}

static PS_COLD void free_doubtful(struct ps_span *span, void *block) {
    ps_free_check(span, block);
    free_in(span, block);
}

static PS_COLD void free_beside_run(struct ps_heap *heap, struct ps_span *span, void *block) {
    leave_streak(heap, span, block);
    free_in(span, block);
}

/* Frees a block outside of this heap's spans of one granule. */
static PS_NOINLINE void free_other(struct ps_slot *slot, void *block) {
    struct ps_span *span = ps_span_holding(slot, block);
    if (PS_UNLIKELY(span == NULL)) {
        ps_free_large(slot, block);
        ps_thread_leave();
        return;
    }
    ps_free_check(span, block);
    struct ps_heap *heap = ps_thread_own();
    heap = heap != NULL ? heap : ps_heap_acquire_to_free(); /* asked for, perhaps: thread.h */
    if (PS_UNLIKELY(heap != NULL && heap->streak_span == span)) {
        leave_streak(heap, span, block);
    }
    ps_wipe(block, span->block_bytes);
    ps_heap_free_foreign_owner(span, block);
    ps_thread_leave();
}

/* As ps_heap_free, with zeroing. All calls are tail calls, so it saves no register: a tenth of its
 * instructions. */
void ps_level_1_free(struct ps_span *span, void *block, uintptr_t owner_key) {
    struct ps_heap *heap = ps_thread_own(); /* NULL: then the key matches no heap */
    if (PS_UNLIKELY(owner_key != ps_heap_key(heap))) {
        free_other((struct ps_slot *)span, block);
        return;
    }
    /* As in ps_span_free. */
    uintptr_t link = ps_link_stored(span->free, span->salt);
    if (PS_UNLIKELY(!ps_span_has_handed(span, block) ||
                    (link ^ ps_link_word(block)) < PS_GRANULE_BYTES)) {
        free_doubtful(span, block);
        return;
    }
    if (PS_UNLIKELY(heap->streak_span == span)) {
        free_beside_run(heap, span, block);
        return;
    }
    size_t bytes = span->block_bytes;
    if (PS_UNLIKELY(bytes > PS_WIPE_INLINE_BYTES)) {
        free_in(span, block);
        return;
    }
    ps_wipe(block, bytes);
    ps_link_store(block, link);
    span->free = block;
    if (PS_UNLIKELY(ps_counter_down(&span->free_countdown))) {
        ps_heap_free_event(block, span);
        return;
    }
    ps_thread_leave();
}

/* ---- free streaks ---- */

/* True when no block that the streak would grow over is free: such a block would pass for one that
 * is freed for the first time. Reads the blocks in the order in which the program will. */
bool ps_level_1_may_open_streak(const struct ps_span *span, const char *newest, ptrdiff_t step) {
    uintptr_t salt = ps_load_relaxed(&span->salt); /* relaxed: the caller has a block of the span */
    const char *begin = ps_span_block(span, span->first);
    size_t bytes = ps_span_capacity(span) * span->block_bytes;
    const char *block = newest + step;
    while ((size_t)(block - begin) < bytes && !ps_span_is_unhanded(span, block)) {
        if (PS_UNLIKELY(ps_link_is_near(block, ps_link_of(block, salt)) &&
                        ps_span_is_listed(span, block))) {
            return false;
        }
        block += step;
    }
    return true;
}

/* Zeroes the blocks of a list, except their links. */
static void wipe_linked(const struct ps_span *span, char *lowest, size_t blocks) {
    for (size_t i = 0; i < blocks; i++) {
        uintptr_t *block = (uintptr_t *)(lowest + i * span->block_bytes);
        uintptr_t link = *block;
        ps_wipe(block, span->block_bytes);
        *block = link;
    }
}

/* Returns a streak with links, by which a double free of its blocks is detected, unless the span
 * drains. Blocks that another thread has freed too are detected before they are zeroed. */
void ps_level_1_return_streak(struct ps_heap *heap, struct ps_span *span, char *lowest,
                              size_t blocks) {
    char *last = lowest + (blocks - 1) * span->block_bytes;
    /* relaxed: equal only if this thread wrote it. */
    bool is_own = ps_load_relaxed(&span->x_owner) == ps_heap_key(heap);
    if (is_own && span->place != PS_PLACE_CURRENT && span->used == blocks) {
        memset(lowest, 0, blocks * span->block_bytes);
        ps_span_return_blocks(span, lowest, blocks);
        ps_heap_span_gained(heap, span);
        return;
    }
    ps_span_link_blocks(span, lowest, blocks);
    wipe_linked(span, lowest, blocks);
    if (is_own) {
        ps_bin_count(heap, span);
        ps_span_give_list(span, lowest, last, blocks);
        ps_heap_span_gained(heap, span);
        return;
    }
    ps_owner_add(&heap->x_remote_frees, blocks);
    ps_owner_add(&heap->x_remote_batches, 1);
    ps_remote_handed(span, ps_span_hand_list(span, lowest, last, blocks));
}

/* ---- realloc ---- */

/* Zeroes the part that a run loses when it is cut in place. */
static void *resize_large(struct ps_slot *slot, void *block, size_t bytes) {
    /* relaxed: set before the block existed. */
    bool is_run = ps_load_relaxed(&slot->run.kind) == PS_RUN_BLOCK && slot->run.base == block;
    size_t usable = is_run ? ps_large_usable(slot, block) : 0;
    if (bytes > PS_CLASS_BYTES_LIMIT && bytes < usable) {
        size_t kept = ps_round_up(bytes, ps_os_page_bytes()); /* usable is a multiple of it */
        ps_large_make_zero((char *)block + kept, usable - kept);
    }
    return ps_resize_large(slot, block, bytes);
}

/* As in the plain mode, but preserves the block's class, by which a claimed size is checked. */
void *ps_level_1_resize(void *block, size_t bytes) {
    struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_span *span = ps_span_holding(slot, block);
    if (PS_UNLIKELY(span == NULL)) {
        return resize_large(slot, block, bytes);
    }
    ps_resize_check(span, block, PS_MISUSE_REALLOC);
    size_t room = span->block_bytes;
    bool stays = ps_resize_stays(room, bytes) && ps_size_class_of(bytes) == span->class_index;
    return stays ? block : ps_resize_by_copy(block, room, bytes);
}

void *ps_level_1_refill(struct ps_heap *heap, struct ps_bin *bin, size_t bytes) {
    bool is_class = (uint32_t)(bin - heap->bins) != PS_CLASS_NONE;
    return bytes == 0 && !is_class ? ps_zero_alloc() : ps_guard_refill(heap, bin, bytes);
}

void ps_level_1_release_run(struct ps_run *run) {
    ps_large_make_zero(run->base, ps_large_usable(ps_slot_of_run(run), run->base));
    ps_hard_large_hold(run);
}

void ps_level_1_fork_child(void) {
    ps_guard_fork_child();
    ps_hard_large_fork_child();
}
