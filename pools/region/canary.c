/* SPDX-License-Identifier: MIT */
/*
 * Blocks of watched regions with canaries around them. Callers: the files of this folder. Calls
 * pools/common/canary.h.
 *
 * A chunk is full of records from `start` to `at`, in the order in which the blocks were made, and
 * a large block is one record, where the block lies without canaries. The floor remains the start,
 * since a record has its own alignment. All blocks are aligned to 16.
 */
#include "pools/region/region.h"

enum { FILL_FREED = 0xdf };

void ps_region_mark_freed(char *memory, size_t bytes) {
    ps_unpoison(memory, bytes);
    memset(memory, FILL_FREED, bytes);
    ps_poison(memory, bytes);
}

void *ps_region_alloc_large_watched(struct ps_region_state *region, size_t bytes, size_t align) {
    size_t need;
    if (!ps_canary_need(bytes, align, &need)) {
        need = PTRDIFF_MAX; /* refused by the source */
    }
    char *place = ps_region_alloc_large(region, need, PS_ALIGN_DEFAULT);
    if (place == NULL) {
        return NULL;
    }
    return ps_canary_cut(&place, place + need, bytes, align);
}

/* The record of a large block. */
static char *record_of(struct ps_region_large *large) { return (char *)(large + 1); }

void ps_region_verify(const struct ps_region_state *region) {
    if (!ps_region_has_canaries(region)) {
        return;
    }
    struct ps_canary_pool pool = ps_region_canary_pool(region);
    for (const struct ps_region_chunk *chunk = region->chunk; chunk != NULL; chunk = chunk->prev) {
        ps_canary_verify_range(chunk->start, ps_region_top(region, chunk), pool);
    }
    for (struct ps_region_large *large = region->large; large != NULL; large = large->next) {
        (void)ps_canary_verify_at(record_of(large), record_of(large) + large->room_bytes, pool);
    }
}

void ps_region_check(const struct ps_region *public) {
    const struct ps_region_state *region = ps_region_const_state(public);
    ps_region_check_thread(region);
    ps_region_verify(region);
}

void ps_region_check_size(const struct ps_region_state *region, const void *block, size_t bytes) {
    if (!ps_canary_is_block(block)) {
        ps_region_verify(region); /* a write in front of the block has its own line */
        ps_debug_misuse("freed or resized, but no block:", block, region->chunks.name);
    }
    ps_canary_verify(block, ps_region_canary_pool(region));
    if (ps_canary_bytes(block) != bytes) {
        ps_debug_misuse("freed or resized with another size than its own: block", block,
                        region->chunks.name);
    }
}

/* The newer blocks of the chunk lie where this one's rounding would. */
void ps_region_check_newest(const struct ps_region_state *region,
                            const struct ps_region_chunk *chunk, void *block, size_t bytes,
                            size_t align) {
    size_t slack = ps_region_block_bytes(bytes, align) - bytes;
    size_t newer = 0;
    char *at = ps_canary_end(block);
    while (at < chunk->at && newer < slack) { /* ends: each is a byte at least */
        char *next = ps_canary_block_at(at);
        newer += ps_max(ps_canary_bytes(next), 1);
        at = ps_canary_end(next);
    }
    if (at == chunk->at && newer == slack && slack != 0) {
        ps_debug_misuse("freed with another alignment than its own: block", block,
                        region->chunks.name);
    }
}

void *ps_region_resize_watched(struct ps_region_state *region, struct ps_region_chunk *chunk,
                               char *block, size_t bytes) {
    struct ps_region_large *large = ps_region_large_of(region, block);
    char *end = ps_canary_end(block);
    char *new_end = ps_canary_end_for(block, bytes);
    bool is_shorter = bytes <= ps_canary_bytes(block);
    if (large != NULL && new_end <= record_of(large) + large->room_bytes) {
        ps_canary_resize(block, bytes, new_end);
        return block;
    }
    if (chunk != NULL && new_end <= chunk->end) {
        ps_canary_resize(block, bytes, new_end);
        if (new_end < end) {
            ps_region_mark_freed(new_end, (size_t)(end - new_end));
        }
        chunk->at = new_end;
        ps_region_enter(region);
        return block;
    }
    if (is_shorter) {
        ps_canary_resize(block, bytes, end);
    }
    return is_shorter ? block : NULL;
}
