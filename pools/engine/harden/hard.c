/* SPDX-License-Identifier: MIT */
/*
 * See hard.h, from level 2 on. A block is zero from its free to its next allocation, except its
 * first word while that is a link.
 */
#include "pools/engine/harden/hard.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard_canary.h"
#include "pools/engine/harden/hard_quarantine.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/harden/wipe.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/shadow.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"

#include <errno.h>
#include <string.h>

#define SPARSE_SPANS 16 /* per class and heap at level 3; a quarter of that at level 2 */
#define LOOKED_AT_WHOLE ((size_t)1 << 10)

uint32_t ps_hard_level;
size_t ps_hard_extra_bytes;
uint64_t ps_canary_secret;

void ps_hard_start(const struct ps_config *config) {
    ps_hard_level = config->harden;
    if (!ps_hard_is_on()) {
        return;
    }
    ps_canary_secret = ps_os_random();
    ps_refill_sparse_spans =
        ps_hard_level >= PS_HARDEN_LONG_QUARANTINE ? SPARSE_SPANS : SPARSE_SPANS / 4;
    ps_hard_extra_bytes = PS_CANARY_BYTES;
}

static size_t room_of(const struct ps_span *span) { return span->block_bytes - PS_CANARY_BYTES; }

bool ps_hard_is_intact(const struct ps_span *span, const void *block) {
    return ps_canary_is_intact(block, room_of(span));
}

/* Requested bytes of the block; aborts when the bytes behind them were overwritten. */
static size_t check_canary(const struct ps_span *span, const void *block) {
    if (PS_UNLIKELY(!ps_canary_is_intact(block, room_of(span)))) {
        ps_misuse(PS_MISUSE_OVERRUN, span, block);
    }
    return room_of(span) - ps_canary_slack(block, room_of(span));
}

/* Shadow byte of the preceding block; mark: that of the block. Both lie in one leaf of the page
 * map, unless the distance crosses leaves. */
static inline const uint8_t *mark_in_front(const struct ps_span *span, const char *block,
                                           const uint8_t *mark) {
    size_t step = span->block_bytes >> PS_SHADOW_SHIFT;
    bool is_in_leaf = ((uintptr_t)block & (((size_t)1 << PS_LEAF_SHIFT) - 1)) >= span->block_bytes;
    return PS_LIKELY(is_in_leaf) ? mark - step : ps_shadow_at(block - span->block_bytes);
}

/* Checks the canary of the preceding block, which an overrun from there has overwritten, or an
 * underrun of the block itself. Another thread may be using that block. */
static inline void check_neighbour(const struct ps_span *span, const char *block,
                                   const uint8_t *mark) {
    const char *neighbour = block - span->block_bytes;
    if (neighbour < span->run.base) {
        return;
    }
    const uint8_t *other = mark_in_front(span, block, mark);
    bool is_live =
        other != NULL && ps_shadow_is(ps_shadow_read(other), PS_SHADOW_LIVE); /* else no canary */
    if (is_live && PS_UNLIKELY(ps_canary_slack(neighbour, room_of(span)) > room_of(span))) {
        ps_hard_check_other(span, neighbour);
    }
}

/* ---- allocation ---- */

/*
 * True when a block is still as ps_hard_pass left it. At level 2 one word of each 64 bytes
 * represents the part behind the first KiB, a different one each time: an eighth of the loads.
 */
static PS_NOINLINE bool is_long_untouched(struct ps_hard *hard, const void *block, size_t bytes) {
    if (ps_hard_level >= PS_HARDEN_LONG_QUARANTINE || hard == NULL) {
        return ps_is_wiped(block, bytes);
    }
    return ps_is_wiped(block, LOOKED_AT_WHOLE) &&
           ps_is_wiped_at((const char *)block + LOOKED_AT_WHOLE,
                          ps_round_down(bytes - LOOKED_AT_WHOLE, PS_WIPE_LINE_BYTES),
                          ps_hard_random_below(hard, PS_WIPE_LINE_WORDS));
}

static inline void check_untouched(struct ps_hard *hard, const void *block, size_t bytes) {
    bool is_untouched = PS_LIKELY(bytes <= LOOKED_AT_WHOLE) ? ps_is_wiped(block, bytes)
                                                            : is_long_untouched(hard, block, bytes);
    if (PS_UNLIKELY(!is_untouched)) {
        ps_misuse(PS_MISUSE_LATE_WRITE, ps_span_of_inside(ps_page_map_slot(block), block), block);
    }
}

/* Takes the next ready block. Precondition: there is one. */
static inline void *take_ready(struct ps_hard *hard, struct ps_hard_class *class,
                               size_t block_bytes) {
    uintptr_t ready = class->ready[--class->ready_count];
    void *block = (void *)(ready & ~PS_READY_FRESH);
    if ((ready & PS_READY_FRESH) == 0) {
        check_untouched(hard, block, block_bytes);
    }
    return block;
}

/* Makes a block live. NULL with errno ENOMEM when memory for its shadow byte is exhausted: the
 * block cannot be freed without one, and is lost. */
static inline void *begin_life(void *block, size_t block_bytes, size_t bytes) {
    uint8_t *mark = ps_shadow_make_at(block);
    if (PS_UNLIKELY(mark == NULL)) {
        errno = ENOMEM;
        return NULL;
    }
    uint8_t busy = ps_shadow_set_busy(mark);
    ps_canary_set(block, block_bytes - PS_CANARY_BYTES, bytes);
    ps_shadow_set(mark, busy, PS_SHADOW_LIVE);
    return block;
}

/* Allocates in a heap without arrays, because memory was exhausted. */
static PS_COLD void *alloc_without_arrays(struct ps_heap *heap, uint32_t class_index, size_t bytes,
                                          size_t sample_bytes) {
    struct ps_bin *bin = &heap->bins[class_index];
    void *block = ps_hard_take_or_refill(heap, class_index, sample_bytes);
    if (block == NULL || ps_hard_is_sample(block)) {
        return block;
    }
    memset(block, 0, bin->block_bytes);
    return begin_life(block, bin->block_bytes, bytes);
}

void *ps_hard_alloc(struct ps_heap *heap, uint32_t class_index, size_t bytes, size_t sample_bytes) {
    if (PS_UNLIKELY(bytes == 0 && sample_bytes == 0)) {
        return ps_zero_alloc();
    }
    if (PS_UNLIKELY(class_index == PS_CLASS_NONE)) {
        ps_heap_tick(heap);
        return ps_large_alloc(bytes, 1, NULL);
    }
    struct ps_hard *hard = heap->hard;
    size_t block_bytes = ps_size_classes[class_index].block_bytes;
    if (PS_UNLIKELY(hard == NULL)) {
        return alloc_without_arrays(heap, class_index, bytes, sample_bytes);
    }
    if (hard->classes[class_index].ready_count == 0) {
        void *block = ps_hard_refill(heap, class_index, sample_bytes);
        if (hard->classes[class_index].ready_count == 0) {
            return block;
        }
    }
    void *block = take_ready(hard, &hard->classes[class_index], block_bytes);
    return begin_life(block, block_bytes, bytes);
}

static PS_NOINLINE void *alloc_unready(struct ps_heap *heap, size_t bytes) {
    return ps_hard_alloc(heap, ps_hard_class_of(bytes), bytes, bytes);
}

void *ps_hard_malloc(struct ps_heap *heap, size_t bytes) {
    uint32_t class_index = ps_size_class_of(bytes + PS_CANARY_BYTES);
    struct ps_hard *hard = heap->hard;
    if (PS_UNLIKELY(hard == NULL || bytes == 0 || class_index == PS_CLASS_NONE)) {
        return alloc_unready(heap, bytes);
    }
    struct ps_hard_class *class = &hard->classes[class_index];
    if (PS_UNLIKELY(class->ready_count == 0)) {
        return alloc_unready(heap, bytes);
    }
    size_t block_bytes = heap->bins[class_index].block_bytes;
    return begin_life(take_ready(hard, class, block_bytes), block_bytes, bytes);
}

/* ---- free ---- */

/* Ends the life of a block; mark: its shadow byte. */
PS_INLINE void end_life(const struct ps_span *span, void *block, uint8_t *mark) {
    uint8_t busy = ps_shadow_set_busy(mark);
    if (PS_UNLIKELY(!ps_canary_is_intact(block, room_of(span)))) {
        ps_misuse(PS_MISUSE_OVERRUN, span, block);
    }
    check_neighbour(span, block, mark);
    ps_wipe(block, span->block_bytes);
    ps_shadow_set(mark, busy, PS_SHADOW_FREED);
}

void *ps_hard_pass(struct ps_heap *heap, struct ps_span *span, void *block) {
    uint8_t *mark = ps_shadow_of_live(block);
    if (PS_UNLIKELY(mark == NULL)) {
        ps_misuse_free(span, block);
    }
    if (PS_UNLIKELY(ps_shadow_family(mark) != 0)) {
        ps_misuse(PS_MISUSE_FAMILY, span, block);
    }
    end_life(span, block, mark);
    if (PS_UNLIKELY(heap == NULL || heap->hard == NULL)) {
        return block;
    }
    ps_hard_hold(heap, span->class_index, block);
    return NULL;
}

bool ps_hard_free(struct ps_slot *slot, void *block) {
    struct ps_heap *heap = ps_thread.own;
    uint8_t *mark = ps_shadow_at(block);
    /* relaxed: set before the block was allocated. */
    uint8_t kind = ps_load_relaxed(&slot->run.kind);
    bool is_one = mark != NULL && heap != NULL && heap->hard != NULL &&
                  ((uintptr_t)block & (((size_t)1 << PS_SHADOW_SHIFT) - 1)) == 0 &&
                  (ps_shadow_read(mark) & (PS_SHADOW_STATE | PS_SHADOW_FAMILY)) == PS_SHADOW_LIVE;
    const struct ps_span *span = ps_span_of_slot(slot);
    if (PS_UNLIKELY(kind != PS_RUN_SPAN)) {
        is_one = is_one && kind == PS_RUN_INSIDE;
        span = ps_span_of_inside(slot, block);
    }
    if (PS_LIKELY(is_one)) {
        end_life(span, block, mark);
        ps_hard_hold(heap, span->class_index, block);
    }
    return is_one;
}

size_t ps_hard_usable(const struct ps_span *span, const void *block, enum ps_misuse_call call) {
    if (PS_UNLIKELY(!ps_span_has_block(span, block))) {
        ps_misuse_met(span, block, call);
    }
    const uint8_t *mark = ps_shadow_of_live(block);
    if (PS_UNLIKELY(mark == NULL)) {
        ps_misuse_met(span, block, call);
    }
    if (PS_UNLIKELY(call == PS_MISUSE_REALLOC && ps_shadow_family(mark) != 0)) {
        ps_misuse(PS_MISUSE_FAMILY, span, block);
    }
    return check_canary(span, block);
}

void ps_hard_resize(const struct ps_span *span, void *block, size_t bytes) {
    uint8_t *mark = ps_shadow_of_live(block);
    uint8_t busy = ps_shadow_set_busy(mark);
    ps_canary_set(block, room_of(span), bytes);
    ps_shadow_set(mark, busy, PS_SHADOW_LIVE);
}
