/* SPDX-License-Identifier: MIT */
/*
 * Large blocks of a region: each in a chunk of its own, with a header in front of it, on a doubly
 * linked list, so that one is freed in O(1) whatever their number. Callers: this folder.
 *
 * ps_region_free and the like take any block of the region and must recognise the large ones.
 * The 48 bytes before any block are memory of the region (its own header, a chunk's, other blocks),
 * so they may be read; the last word of a large block's header is a seal made of both addresses,
 * which is broken when the block is freed. A program that forges one deceives only itself. While
 * memory is watched, those 48 bytes may be marked or undefined, and the list is searched instead.
 * With canaries the record of the block lies where the block does without.
 */
#include "pools/region/region.h"

#include "pools/engine/base/bits.h"

#include <poolshim/pages.h>

static uintptr_t seal_of(const struct ps_region_state *region, const void *block) {
    return ((uintptr_t)region * PS_GOLDEN_64) ^ (uintptr_t)block ^ 0x6c617267655f626bu;
}

/* bytes: at most PTRDIFF_MAX; align: at most 1 GiB: the sum cannot overflow. */
void *ps_region_alloc_large(struct ps_region_state *region, size_t bytes, size_t align) {
    size_t total = sizeof(struct ps_region_large) + bytes + (align > PS_ALIGN_DEFAULT ? align : 0);
    if (region->chunks.source == NULL) {
        total = ps_round_up(total, PS_PAGE_BYTES); /* what it gives anyway */
    }
    char *base = ps_chunk_take_exact(&region->chunks, total, PS_ALIGN_DEFAULT);
    if (base == NULL) {
        return NULL;
    }
    ps_region_note_peak(region);
    uintptr_t block_at =
        ps_round_up((uintptr_t)base + sizeof(struct ps_region_large), ps_max(align, 16));
    char *block = base + (block_at - (uintptr_t)base);
    struct ps_region_large *large = (struct ps_region_large *)(void *)block - 1;
    *large = (struct ps_region_large){
        .next = region->large,
        .link = &region->large,
        .base = base,
        .bytes = total,
        .room_bytes = (size_t)(base + total - block),
        .seal = seal_of(region, block),
    };
    if (large->next != NULL) {
        large->next->link = &large->next;
    }
    region->large = large;
    return block;
}

bool ps_region_is_large(const struct ps_region_state *region, const struct ps_region_large *large) {
    return !region->is_malloc ||
           ps_region_is_too_long(region, sizeof(struct ps_region_chunk) + large->room_bytes);
}

static PS_COLD struct ps_region_large *find(const struct ps_region_state *region,
                                            const struct ps_region_large *wanted) {
    struct ps_region_large *large = region->large;
    while (large != NULL && large != wanted) {
        large = large->next;
    }
    return large;
}

/* NULL when the block is not a large one. */
struct ps_region_large *ps_region_large_of(const struct ps_region_state *region, void *block) {
    if ((uintptr_t)block % PS_ALIGN_DEFAULT != 0) {
        return NULL;
    }
    struct ps_region_large *large = (struct ps_region_large *)block - 1;
    if (PS_UNLIKELY(ps_region_has_canaries(region))) {
        return ps_canary_is_block(block)
                   ? find(region, (struct ps_region_large *)(void *)ps_canary_start(block) - 1)
                   : NULL;
    }
    if (PS_UNLIKELY(region->is_watched || ps_poison_is_on)) {
        return find(region, large);
    }
    return large->seal == seal_of(region, block) ? large : NULL;
}

void ps_region_drop_large(struct ps_region_state *region, struct ps_region_large *large) {
    *large->link = large->next;
    if (large->next != NULL) {
        large->next->link = large->link;
    }
    large->seal = 0;
    ps_chunk_give(&region->chunks, large->base, large->bytes);
}
