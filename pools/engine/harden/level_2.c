/* SPDX-License-Identifier: MIT */
/*
 * See level.h. Small blocks pass through hard.c on their way from and to their spans. No locks of
 * its own.
 */
#include "pools/engine/harden/level.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/maintenance.h"
#include "pools/engine/heap/plain.h"
#include "pools/engine/heap/resize.h"
#include "pools/engine/heap/slow_path.h"
#include "pools/engine/heap/thread.h"
#include "pools/engine/os/bytes.h"

#include <errno.h>

#define GUARD_SAMPLE 1000 /* default at level 3 */

bool ps_level_2_start(const struct ps_config *config) {
    struct ps_config sampled = *config;
    if (config->harden == PS_HARDEN_LONG_QUARANTINE && config->guard_sample == 0) {
        sampled.guard_sample = GUARD_SAMPLE;
    }
    ps_stray_start(config);
    ps_hard_start(config);
    ps_guard_start(&sampled);
    return true;
}

bool ps_level_2_make_state(void **state) {
    *state = ps_hard_make();
    return true;
}

/* Blocks from hard.c are zero, except samples. */
void *ps_level_2_zalloc(struct ps_heap *heap, size_t bytes) {
    if (bytes > PS_CLASS_BYTES_LIMIT) {
        return ps_plain_zalloc(heap, bytes);
    }
    void *block = ps_hard_malloc(heap, bytes);
    return block != NULL && ps_guard_period != 0 ? ps_bytes_zero_block(block, bytes) : block;
}

void *ps_level_2_alloc_aligned(struct ps_heap *heap, size_t bytes, size_t align) {
    if (PS_UNLIKELY(bytes == 0 && align <= PS_ZERO_ALIGN)) {
        return ps_zero_alloc();
    }
    size_t wanted = ps_max(bytes, 1) + ps_hard_extra_bytes;
    uint32_t class_index = wanted < bytes ? PS_CLASS_NONE : ps_size_class_of_aligned(wanted, align);
    if (class_index == PS_CLASS_NONE) {
        return ps_large_alloc(bytes, align, NULL);
    }
    return ps_hard_alloc(heap, class_index, bytes, ps_size_classes[class_index].block_bytes);
}

/* Resizes in place if the block fits and at least half of it remains in use, or there is no memory
 * for another one. */
void *ps_level_2_resize(void *block, size_t bytes) {
    struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_span *span = ps_span_holding(slot, block);
    if (PS_UNLIKELY(span == NULL)) {
        return ps_resize_large(slot, block, bytes);
    }
    size_t usable = ps_hard_usable(span, block, PS_MISUSE_REALLOC);
    size_t room = span->block_bytes - ps_hard_extra_bytes;
    if (bytes > room || bytes < room / 2) {
        int saved_errno = errno;
        void *resized = ps_resize_by_copy(block, usable, bytes);
        if (resized != block && (resized != NULL || bytes > room)) {
            return resized;
        }
        errno = saved_errno;
    }
    ps_hard_resize(span, block, bytes);
    return block;
}

size_t ps_level_2_usable(const void *block) {
    struct ps_slot *slot = ps_page_map_slot(block);
    const struct ps_span *span = ps_span_holding(slot, block);
    return PS_LIKELY(span != NULL) ? ps_hard_usable(span, block, PS_MISUSE_SIZE)
                                   : ps_usable_large(slot, block);
}
