/* SPDX-License-Identifier: MIT */
/*
 * Questions about a block that exists: how large is it, can it be another size. Any thread that
 * holds the block. No locks of its own. See blocks.h.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/heap/blocks.h"
#include "pools/engine/heap/early.h"
#include "pools/engine/heap/fast_path.h"
#include "pools/engine/heap/guard.h"
#include "pools/engine/heap/hard.h"
#include "pools/engine/heap/record.h"
#include "pools/engine/heap/zero.h"

#include <errno.h>
#include <string.h>

/* The span that a block lies in, NULL when it lies in none. */
static const struct ps_span *span_of(const struct ps_slot *slot, const void *block) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: set before the block existed */
    if (kind == PS_RUN_INSIDE) {
        return ps_span_of_inside(slot, block);
    }
    return kind == PS_RUN_SPAN ? (const struct ps_span *)slot : NULL;
}

static bool is_large(const struct ps_slot *slot, const void *block) {
    uint8_t kind = ps_load_relaxed(&slot->run.kind); /* relaxed: as in span_of */
    return (kind == PS_RUN_BLOCK || kind == PS_RUN_MAPPING) && slot->run.base == block;
}

static bool is_guarded(const struct ps_slot *slot) {
    return ps_load_relaxed(&slot->run.kind) == PS_RUN_GUARD; /* relaxed: as in span_of */
}

/* What the program may use of a block in a span, about which `call` asks. */
static size_t usable_in(const struct ps_span *span, const void *block, enum ps_misuse_call call) {
    if (ps_hard_is_on()) {
        return ps_hard_usable(span, block, call);
    }
    ps_misuse_check(span, block, call);
    return span->block_bytes;
}

size_t ps_block_usable(const void *block) {
    if (block == NULL) {
        return 0;
    }
    const struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_span *span = span_of(slot, block);
    if (span != NULL) {
        return usable_in(span, block, PS_MISUSE_SIZE);
    }
    if (is_large(slot, block)) {
        return ps_large_usable(slot);
    }
    if (is_guarded(slot)) {
        return ps_guard_usable(block, "size");
    }
    if (ps_zero_is_live(block)) {
        return 0;
    }
    size_t early = ps_early_usable(block);
    if (early == 0) {
        ps_misuse_slot(slot, block, PS_MISUSE_SIZE);
    }
    return early;
}

static void *resize_by_copy(void *block, size_t usable, size_t bytes) {
    void *copy = ps_heap_alloc(bytes);
    if (copy != NULL) {
        memcpy(copy, block, ps_min(usable, bytes));
        ps_heap_free(block);
    }
    return copy;
}

/* A block has another size where it is, in a thread that may not take the fast path. */
static void note_size(const struct ps_span *span, void *block, size_t bytes) {
    if (ps_hard_is_on()) {
        ps_hard_resize(span, block, bytes);
    } else if (ps_record_is_on()) {
        ps_record_resized(span, block, bytes);
    }
}

void *ps_block_resize(void *block, size_t bytes) {
    if (PS_UNLIKELY(!ps_early_is_over())) {
        return ps_early_resize(block, bytes);
    }
    struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_span *span = span_of(slot, block);
    if (span != NULL) {
        size_t usable = usable_in(span, block, PS_MISUSE_REALLOC);
        size_t room = span->block_bytes - ps_hard_extra_bytes;
        /* In place when it fits and at least half stays in use; at level 1 a block's class tells
         * what it was asked for. */
        bool is_of_class = ps_hard_level != PS_HARD_ZEROES ||
                           (bytes <= room && ps_size_class_of(bytes) == span->class_index);
        if (bytes <= room && bytes >= room / 2 && is_of_class) {
            if (PS_UNLIKELY(ps_thread.heap == NULL)) {
                note_size(span, block, bytes);
            }
            return block;
        }
        return resize_by_copy(block, usable, bytes);
    }
    if (PS_UNLIKELY(is_guarded(slot))) {
        return resize_by_copy(block, ps_guard_usable(block, "realloc"), bytes);
    }
    if (PS_UNLIKELY(ps_zero_is_live(block))) {
        return resize_by_copy(block, 0, bytes);
    }
    if (!is_large(slot, block)) {
        size_t early = ps_early_usable(block);
        if (early == 0) {
            ps_misuse_slot(slot, block, PS_MISUSE_REALLOC);
            errno = ENOMEM;
            return NULL;
        }
        return resize_by_copy(block, early, bytes);
    }
    if (bytes > PS_CLASS_BYTES_LIMIT) {
        size_t old_bytes = ps_large_usable(slot);
        void *resized = ps_large_resize(slot, bytes);
        if (resized != NULL) {
            if (PS_UNLIKELY(ps_record_is_on())) {
                ps_record_large_resized(old_bytes, ps_large_usable(ps_page_map_slot(resized)));
            }
            return resized;
        }
    }
    return resize_by_copy(block, ps_large_usable(slot), bytes);
}
