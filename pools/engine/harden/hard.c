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
#include "pools/engine/heap/exhausted.h"
#include "pools/engine/heap/free_list.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/plain.h"
#include "pools/engine/heap/refill.h"
#include "pools/engine/heap/remote.h"
#include "pools/engine/heap/shadow.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/metadata.h"

#include <errno.h>
#include <string.h>

#define SPARSE_SPANS 16 /* per class and heap at level 3; a quarter of that at level 2 */
#define LOOKED_AT_WHOLE ((size_t)1 << 10)
#define FETCHED_AHEAD 32 /* blocks: as many as are granted in random order */

uint32_t ps_hard_level;
size_t ps_hard_extra_bytes;
uint64_t ps_canary_secret;
uint64_t ps_slack_pattern;
static size_t most_bytes; /* largest request that a class serves */

void ps_hard_start(const struct ps_config *config) {
    ps_hard_level = config->harden;
    if (!ps_hard_is_on()) {
        return;
    }
    ps_canary_secret = ps_os_random();
    ps_slack_pattern = (ps_os_random() >> 57 | 0x80) * 0x0101010101010101u;
    most_bytes = ps_size_class_max_bytes - PS_CANARY_BYTES;
    ps_refill_sparse_spans =
        ps_hard_level >= PS_HARDEN_LONG_QUARANTINE ? SPARSE_SPANS : SPARSE_SPANS / 4;
    ps_hard_extra_bytes = PS_CANARY_BYTES;
}

/* Requested bytes of the block; aborts when the bytes after them were overwritten. */
static size_t check_canary(const struct ps_span *span, const void *block) {
    if (PS_UNLIKELY(!ps_canary_is_intact(block, ps_canary_room(span->block_bytes)))) {
        ps_misuse(PS_MISUSE_OVERRUN, span, block);
    }
    return ps_canary_room(span->block_bytes) -
           ps_canary_slack(block, ps_canary_room(span->block_bytes));
}

/* True when a block may have been overrun: it is live, and has no canary. mark: its shadow byte,
 * which is read first: another block may be inaccessible. */
PS_RACING bool is_suspect(const void *block, const uint8_t *mark, size_t room) {
    return ps_shadow_is(ps_shadow_read(mark), PS_SHADOW_LIVE) &&
           ps_canary_slack(block, room) > room;
}

/* Checks the canary of the preceding block, which an overrun from there has overwritten, or an
 * underrun of the block itself. Another thread may be using that block. */
static void check_neighbour(const struct ps_span *span, const char *block) {
    const char *neighbour = block - span->block_bytes;
    const uint8_t *mark = neighbour >= span->run.base ? ps_shadow_at(neighbour) : NULL;
    if (mark != NULL &&
        PS_UNLIKELY(is_suspect(neighbour, mark, ps_canary_room(span->block_bytes)))) {
        ps_hard_check_other(span, neighbour);
    }
}

/* As check_neighbour, for a block in a span's first granule, without the check itself. */
PS_INLINE bool is_neighbour_suspect(const char *block, const uint8_t *mark, size_t block_bytes) {
    bool is_first = (uintptr_t)block % PS_GRANULE_BYTES < block_bytes;
    return !is_first && is_suspect(block - block_bytes, mark - (block_bytes >> PS_SHADOW_SHIFT),
                                   ps_canary_room(block_bytes));
}

/* ---- allocation ---- */

/*
 * True when a block is unchanged since ps_hard_pass. At level 2 one word of each 64 bytes
 * represents the part after the first KiB, a different one each time: an eighth of the loads.
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
static inline void *take_ready(struct ps_hard *hard, struct ps_hard_class *class) {
    uintptr_t ready = class->ready[--class->ready_count];
    void *block = (void *)(ready & ~PS_READY_FRESH);
    if ((ready & PS_READY_FRESH) == 0) {
        check_untouched(hard, block, class->block_bytes);
    }
    return block;
}

/* Makes a block live; mark: its shadow byte. */
PS_INLINE void set_live(void *block, uint8_t *mark, size_t block_bytes, size_t bytes) {
    uint8_t busy = ps_shadow_set_busy(mark);
    ps_canary_set(block, ps_canary_room(block_bytes), bytes);
    ps_shadow_set(mark, busy, PS_SHADOW_LIVE);
}

/* As set_live. NULL when memory for its shadow byte is exhausted: the block cannot be freed without
 * one, and is lost. */
static void *begin_life(void *block, size_t block_bytes, size_t bytes) {
    uint8_t *mark = ps_shadow_make_at(block);
    if (PS_UNLIKELY(mark == NULL)) {
        return NULL;
    }
    set_live(block, mark, block_bytes, bytes);
    return block;
}

/* Allocates in a heap without arrays, because memory was exhausted. */
static PS_COLD void *alloc_without_arrays(struct ps_heap *heap, uint32_t class_index, size_t bytes,
                                          size_t sample_bytes) {
    struct ps_bin *bin = &heap->bins[class_index];
    void *block = ps_hard_take_or_refill(heap, class_index, sample_bytes);
    if (block != NULL && !ps_hard_is_sample(block)) {
        memset(block, 0, bin->block_bytes);
        block = begin_life(block, bin->block_bytes, bytes);
    }
    if (block == NULL) {
        errno = ENOMEM;
    }
    return block;
}

/* As ps_hard_alloc, from a class without fresh memory. NULL: it has no block, or the next one can
 * have no shadow byte. */
static void *alloc_present(struct ps_heap *heap, uint32_t class_index, size_t bytes,
                           size_t sample_bytes) {
    struct ps_hard_class *class = &heap->hard->classes[class_index];
    if (class->ready_count == 0) {
        void *sample = ps_hard_refill(heap, class_index, sample_bytes);
        if (class->ready_count == 0) {
            return sample;
        }
    }
    const void *next = (void *)(class->ready[class->ready_count - 1] & ~PS_READY_FRESH);
    return ps_shadow_make_at(next) != NULL
               ? begin_life(take_ready(heap->hard, class), class->block_bytes, bytes)
               : NULL;
}

/* As above, from a class or the nearest longer one that has any. */
static void *alloc_nearest(struct ps_heap *heap, uint32_t class_index, size_t bytes,
                           size_t sample_bytes, size_t align) {
    void *block = NULL;
    heap->is_exhausted = true;
    while (block == NULL && class_index != PS_CLASS_NONE) { /* ends: at the last class */
        block = alloc_present(heap, class_index, bytes, sample_bytes);
        class_index = ps_exhausted_next(class_index, align);
    }
    heap->is_exhausted = false;
    return block;
}

/* Allocates a longer block, as in ps_heap_alloc_exhausted. */
static PS_COLD void *alloc_longer(struct ps_heap *heap, uint32_t class_index, size_t bytes,
                                  size_t sample_bytes) {
    size_t align = ps_exhausted_align(class_index, sample_bytes);
    uint32_t longer = ps_exhausted_next(class_index, align);
    void *block = alloc_nearest(heap, longer, bytes, sample_bytes, align);
    if (block == NULL && ps_remote_collect_rest(heap)) {
        block = alloc_nearest(heap, class_index, bytes, sample_bytes, align);
    }
    return ps_exhausted_note(block);
}

void *ps_hard_alloc(struct ps_heap *heap, uint32_t class_index, size_t bytes, size_t sample_bytes) {
    if (PS_UNLIKELY(bytes == 0 && sample_bytes == 0)) {
        return ps_zero_alloc();
    }
    if (PS_UNLIKELY(class_index == PS_CLASS_NONE)) {
        if (heap != NULL) {
            ps_heap_tick(heap);
        }
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
            return block != NULL ? block : alloc_longer(heap, class_index, bytes, sample_bytes);
        }
    }
    void *block = begin_life(take_ready(hard, &hard->classes[class_index]), block_bytes, bytes);
    return PS_LIKELY(block != NULL) ? block : alloc_longer(heap, class_index, bytes, sample_bytes);
}

static PS_NOINLINE void *alloc_unready(struct ps_heap *heap, size_t bytes) {
    uint32_t class_index = bytes <= PS_CLASS_BYTES_LIMIT ? ps_hard_class_of(bytes) : PS_CLASS_NONE;
    void *block = ps_hard_alloc(heap, class_index, bytes, bytes);
    ps_thread_leave();
    return block;
}

/* Takes a ready block that fits in a few loads. All other cases are tail calls, here and in
 * ps_hard_free: neither saves a register. */
void *ps_hard_malloc(struct ps_heap *heap, size_t bytes) {
    if (PS_UNLIKELY(bytes - 1 >= most_bytes)) {
        return alloc_unready(heap, bytes); /* 0 too */
    }
    struct ps_hard *hard = heap->hard;
    if (PS_UNLIKELY(hard == NULL)) {
        return alloc_unready(heap, bytes);
    }
    struct ps_hard_class *class =
        &hard->classes[ps_size_class_by_8[(bytes + PS_CANARY_BYTES + 7) >> 3]];
    size_t block_bytes = class->block_bytes;
    size_t count = class->ready_count;
    if (PS_UNLIKELY(count == 0 || block_bytes > LOOKED_AT_WHOLE)) {
        return alloc_unready(heap, bytes);
    }
    uintptr_t ready = class->ready[count - 1];
    void *block = (void *)(ready & ~PS_READY_FRESH);
    uint8_t *mark = ps_shadow_at(block);
    bool is_good = (ready & PS_READY_FRESH) != 0 || ps_is_wiped(block, block_bytes);
    if (PS_UNLIKELY(!is_good || mark == NULL)) {
        return alloc_unready(heap, bytes);
    }
    class->ready_count = (uint16_t)(count - 1);
    set_live(block, mark, block_bytes, bytes);
    ps_thread_leave();
    return block;
}

/* ---- free ---- */

/* Zeroes a block whose canary and neighbour have been checked; mark: its shadow byte. */
PS_INLINE void end_life(void *block, uint8_t *mark, size_t block_bytes) {
    uint8_t busy = ps_shadow_set_busy(mark);
    ps_wipe(block, block_bytes);
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
    (void)check_canary(span, block);
    check_neighbour(span, block);
    end_life(block, mark, span->block_bytes);
    if (PS_UNLIKELY(heap == NULL || heap->hard == NULL)) {
        return block;
    }
    ps_hard_hold(heap, span->class_index, block);
    return NULL;
}

/* Any address. */
static PS_NOINLINE void free_slow(struct ps_slot *slot, void *block) {
    struct ps_span *span = ps_span_holding(slot, block);
    if (PS_UNLIKELY(span == NULL)) {
        ps_free_large(slot, block);
    } else {
        struct ps_heap *heap = ps_thread_own();
        block = ps_hard_pass(heap != NULL ? heap : ps_heap_acquire_to_free(), span, block);
        if (block != NULL) { /* there is no heap, or none with arrays */
            ps_heap_free_foreign_owner(ps_span_of_inside(ps_page_map_slot(block), block), block);
        }
    }
    ps_thread_leave();
}

static PS_NOINLINE void hold_slow(struct ps_heap *heap, uint32_t class_index, void *block) {
    ps_hard_hold(heap, class_index, block);
    ps_thread_leave();
}

/*
 * Blocks are granted in random order, so a program that frees them in the order of their allocation
 * reads memory in an order that no processor foresees: 50 ns instead of 24 for each node of a list.
 * The frees are expected to continue in the direction from an earlier one, if it lies nearby.
 */
PS_INLINE void fetch_ahead(const char *block, const char *earlier, size_t block_bytes) {
    if (((uintptr_t)block ^ (uintptr_t)earlier) < PS_GRANULE_BYTES) {
        ptrdiff_t distance = (ptrdiff_t)(block_bytes * FETCHED_AHEAD);
        __builtin_prefetch(block + (earlier < block ? distance : -distance), 1);
    }
}

/* Frees a live block in a span of one granule, if it is intact; mark: its shadow byte. */
PS_INLINE void free_live(struct ps_heap *heap, struct ps_span *span, void *block, uint8_t *mark,
                         size_t block_bytes) {
    if (PS_UNLIKELY(!ps_canary_is_intact(block, ps_canary_room(block_bytes)) ||
                    is_neighbour_suspect(block, mark, block_bytes))) {
        free_slow((struct ps_slot *)span, block);
        return;
    }
    struct ps_hard *hard = heap->hard;
    struct ps_hard_class *class = &hard->classes[span->class_index];
    end_life(block, mark, block_bytes);
    if (PS_UNLIKELY(!ps_hard_can_swap(hard, class))) {
        hold_slow(heap, span->class_index, block);
        return;
    }
    fetch_ahead(block, ps_hard_swap(hard, class, block), block_bytes);
    ps_thread_leave();
}

/* Apart from short blocks, because zeroing it takes a call. */
static PS_NOINLINE void free_long(struct ps_heap *heap, struct ps_span *span, void *block,
                                  uint8_t *mark) {
    size_t block_bytes = span->block_bytes;
    if (block_bytes <= PS_WIPE_INLINE_BYTES) {
        __builtin_unreachable(); /* see ps_hard_free */
    }
    free_live(heap, span, block, mark, block_bytes);
}

void ps_hard_free(struct ps_span *span, void *block, uintptr_t owner_key) {
    (void)owner_key;
    struct ps_heap *heap = ps_thread_own();
    uint8_t *mark = ps_shadow_at(block);
    /* relaxed: set before the block was allocated. */
    bool is_here = ps_load_relaxed(&span->run.kind) == PS_RUN_SPAN &&
                   ((uintptr_t)block & (((size_t)1 << PS_SHADOW_SHIFT) - 1)) == 0 && mark != NULL &&
                   (ps_shadow_read(mark) & (PS_SHADOW_STATE | PS_SHADOW_FAMILY)) == PS_SHADOW_LIVE;
    if (PS_UNLIKELY(!is_here || heap == NULL || heap->hard == NULL)) {
        free_slow((struct ps_slot *)span, block);
    } else if (span->block_bytes > PS_WIPE_INLINE_BYTES) {
        free_long(heap, span, block, mark);
    } else {
        free_live(heap, span, block, mark, span->block_bytes);
    }
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
    set_live(block, ps_shadow_of_live(block), span->block_bytes, bytes);
}
