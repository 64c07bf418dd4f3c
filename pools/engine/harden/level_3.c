/* SPDX-License-Identifier: MIT */
/*
 * See level.h, and site.h: small blocks lie in parts of the heap by call site. The functions of
 * level 2 with a part for each request; a guarded sample, a block above the classes and one of no
 * bytes have none. realloc leaves a small block in its part. When memory is exhausted, the plain
 * heap serves requests for which their part has no block.
 *
 * An entry point takes its return address for the site: the shim's functions, and the core's,
 * end in a tail call, or note their own. No locks of its own.
 */
#include "pools/engine/harden/level.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/store.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/hard.h"
#include "pools/engine/harden/hard_life.h"
#include "pools/engine/harden/hard_quarantine.h"
#include "pools/engine/harden/site.h"
#include "pools/engine/harden/stray.h"
#include "pools/engine/heap/exhausted.h"
#include "pools/engine/heap/front_path.h"
#include "pools/engine/heap/large.h"
#include "pools/engine/heap/partition_path.h"
#include "pools/engine/os/bytes.h"

#include <errno.h>

#define CALLER ((uintptr_t)__builtin_return_address(0))

bool ps_level_3_start(const struct ps_config *config) {
    ps_site_start();
    return ps_level_2_start(config);
}

/* ---- allocation ---- */

PS_INLINE void *begin(void *block, uint32_t class_index, size_t bytes) {
    return ps_hard_begin_life(block, ps_size_classes[class_index].block_bytes, bytes);
}

/* A free block of a class of which the part has any; NULL: it has none. */
static void *take_present(struct ps_partition *part, uint32_t class_index) {
    void *block = ps_partition_pop(part, class_index);
    if (block == NULL &&
        ps_store_take_from(ps_partition_store(part, class_index), &block, 1, NULL) != 0) {
        ps_partition_count(part, class_index, 1);
        ps_hard_prepare(&block, 1);
    }
    return block;
}

/* The system refuses memory: the nearest longer class that has a block, then the plain heap. */
static PS_COLD void *alloc_last(struct ps_partition *part, uint32_t class_index, size_t bytes,
                                size_t sample_bytes) {
    size_t align = ps_exhausted_align(class_index, sample_bytes);
    for (uint32_t i = ps_exhausted_next(class_index, align); i != PS_CLASS_NONE;
         i = ps_exhausted_next(i, align)) {
        void *block = take_present(part, i);
        if (block != NULL) {
            return begin(ps_exhausted_note(block), i, bytes);
        }
    }
    return ps_hard_alloc_class(class_index, bytes, sample_bytes);
}

static PS_NOINLINE void *refill(struct ps_partition *part, uint32_t class_index, size_t bytes,
                                size_t sample_bytes) {
    int saved_errno = errno;
    ps_front_note_request(class_index, bytes);
    void *block = ps_hard_take_in(part, class_index);
    if (PS_LIKELY(block != NULL)) {
        return begin(block, class_index, bytes);
    }
    errno = saved_errno;
    return alloc_last(part, class_index, bytes, sample_bytes);
}

PS_INLINE void *alloc_in(struct ps_partition *part, uint32_t class_index, size_t bytes,
                         size_t sample_bytes) {
    if (PS_UNLIKELY(part == NULL)) {
        return ps_hard_alloc_class(class_index, bytes, sample_bytes);
    }
    void *block = ps_partition_pop(part, class_index);
    return PS_LIKELY(block != NULL) ? begin(block, class_index, bytes)
                                    : refill(part, class_index, bytes, sample_bytes);
}

/* The thread's countdown of bytes is over. */
static PS_NOINLINE void *alloc_event(struct ps_partition *part, uint32_t class_index, size_t bytes,
                                     size_t sample_bytes) {
    bool is_due = ps_front_count_event();
    void *sample = PS_UNLIKELY(is_due) ? ps_guard_sample_class(&ps_front_thread.sampler,
                                                               class_index, sample_bytes, NULL)
                                       : NULL;
    return sample != NULL ? sample : alloc_in(part, class_index, bytes, sample_bytes);
}

PS_INLINE void *alloc_counted(struct ps_partition *part, uint32_t class_index, size_t bytes,
                              size_t sample_bytes) {
    ps_front_thread.left_bytes -= (int64_t)sample_bytes;
    return PS_LIKELY(ps_front_thread.left_bytes >= 0)
               ? alloc_in(part, class_index, bytes, sample_bytes)
               : alloc_event(part, class_index, bytes, sample_bytes);
}

/* A request of bytes that a class serves. */
PS_INLINE void *alloc_classed(struct ps_partition *part, size_t bytes) {
    uint32_t class_index = ps_size_class_by_8[(bytes + ps_hard_extra_bytes + 7) >> 3];
    return alloc_counted(part, class_index, bytes, bytes);
}

static PS_NOINLINE void *alloc_at(uintptr_t site, size_t bytes) {
    struct ps_partition *part = ps_site_take(site);
    return PS_LIKELY(bytes - 1 < ps_hard_most_bytes) ? alloc_classed(part, bytes)
                                                     : ps_hard_alloc_unclassed(bytes); /* 0 too */
}

/* Calls of other functions are tail calls, so that no register is saved. */
void *ps_level_3_alloc(size_t bytes) {
    struct ps_partition *part = PS_LIKELY(ps_site_is_on()) ? ps_site_known(CALLER) : NULL;
    bool is_usual =
        part != NULL && ps_front_thread.noted_part == 0 && bytes - 1 < ps_hard_most_bytes;
    return PS_LIKELY(is_usual) ? alloc_classed(part, bytes) : alloc_at(CALLER, bytes);
}

void *ps_level_3_zalloc(size_t bytes) {
    if (bytes > PS_CLASS_BYTES_LIMIT) {
        ps_front_thread.noted_part = 0;
        return ps_front_count_large(ps_large_zalloc(bytes), bytes);
    }
    void *block = alloc_at(CALLER, bytes);
    return block != NULL && ps_guard_period != 0 ? ps_bytes_zero_block(block, bytes) : block;
}

void *ps_level_3_alloc_aligned(size_t bytes, size_t align) {
    struct ps_partition *part = ps_site_take(CALLER);
    if (PS_UNLIKELY(bytes == 0 && align <= PS_ZERO_ALIGN)) {
        return ps_zero_alloc();
    }
    size_t wanted = ps_max(bytes, 1) + ps_hard_extra_bytes;
    uint32_t class_index = wanted < bytes ? PS_CLASS_NONE : ps_size_class_of_aligned(wanted, align);
    if (class_index == PS_CLASS_NONE) {
        return ps_front_count_large(ps_large_alloc(bytes, align, NULL), bytes);
    }
    return alloc_counted(part, class_index, bytes, ps_size_classes[class_index].block_bytes);
}

/* ---- realloc ---- */

/* The part of a live small block; others, or an address of none: that of the site. */
static struct ps_partition *part_of(const void *block, uintptr_t site) {
    const struct ps_slab *slab = ps_slab_holding(ps_page_map_slot(block), block);
    bool is_apart = slab != NULL && slab->extent != NULL;
    struct ps_partition *partition = is_apart ? ps_partition_of_slab(slab) : NULL;
    return ps_partition_is_part(partition) ? partition : ps_site_take(site);
}

void *ps_level_3_resize(void *block, size_t bytes) {
    ps_site_note_part(part_of(block, CALLER));
    void *resized = ps_level_2_resize(block, bytes);
    ps_front_thread.noted_part = 0; /* the block has not moved */
    return resized;
}

/* ---- free ---- */

/* Returns a block that leaves the quarantine to a front of its part. */
PS_INLINE void leave(uint32_t class_index, void *block) {
    const struct ps_slab *slab = ps_slab_of(block);
    if (PS_UNLIKELY(slab->extent == NULL)) {
        ps_hard_leave(class_index, block);
        return;
    }
    ps_partition_put(ps_partition_of_slab(slab), class_index, block);
}

/* As hold in hard.c, while all partitions are parts. */
PS_INLINE void hold(uint32_t class_index, void *block, size_t block_bytes) {
    struct ps_hard_shard *shard = ps_hard_shard_here();
    if (PS_UNLIKELY(shard == NULL)) {
        ps_hard_hold_first(class_index, block);
        return;
    }
    void *other = ps_hard_swap(shard, class_index, block);
    if (PS_LIKELY(other != NULL)) {
        ps_hard_fetch_ahead(block, other, block_bytes);
        leave(class_index, other);
    }
}

/* As in hard.c, for a block in a slab of one granule. */
PS_INLINE void free_live(uint32_t class_index, void *block, uint8_t *mark, size_t block_bytes) {
    if (PS_UNLIKELY(!ps_canary_is_intact(block, ps_canary_room(block_bytes)) ||
                    ps_hard_is_neighbour_suspect(block, mark, block_bytes))) {
        ps_hard_free(block);
        return;
    }
    ps_hard_end_life(block, mark, block_bytes);
    hold(class_index, block, block_bytes);
}

static PS_NOINLINE void free_long(uint32_t class_index, void *block, uint8_t *mark) {
    size_t block_bytes = ps_size_classes[class_index].block_bytes;
    if (block_bytes <= PS_WIPE_INLINE_BYTES) {
        __builtin_unreachable(); /* see ps_level_3_free */
    }
    free_live(class_index, block, mark, block_bytes);
}

/* Other blocks than those of parts, and all while the program has partitions, which may end: see
 * transit.h. */
void ps_level_3_free(void *block) {
    const struct ps_slab *slab = (const struct ps_slab *)ps_page_map_slot(block);
    uint8_t *mark = ps_shadow_at(block);
    if (PS_UNLIKELY(!ps_hard_is_usual(slab, true, block, mark) || ps_partition_end() != 0)) {
        ps_hard_free(block);
        return;
    }
    uint32_t class_index = slab->class_index;
    size_t block_bytes = ps_size_classes[class_index].block_bytes;
    if (block_bytes > PS_WIPE_INLINE_BYTES) {
        free_long(class_index, block, mark);
    } else {
        free_live(class_index, block, mark, block_bytes);
    }
}
