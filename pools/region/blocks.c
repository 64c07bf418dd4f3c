/* SPDX-License-Identifier: MIT */
/*
 * Allocating, freeing and resizing where the inline functions of poolshim/region.h end. Callers:
 * those, and this folder.
 */
#include "pools/region/region.h"

#include <errno.h>

enum { ALIGN_MAX = 1 << 30, NEWEST_TRIES = 3 };

static bool is_good_align(size_t align) { return ps_is_power_of_two(align) && align <= ALIGN_MAX; }

/* Size 0 is 1. */
static size_t block_bytes(size_t bytes, size_t align) {
    return ps_region_block_bytes(ps_max(bytes, 1), align);
}

static void *place(const struct ps_region_state *region, struct ps_region_chunk *chunk,
                   size_t bytes, size_t align) {
    return ps_region_has_canaries(region)
               ? ps_canary_cut(&chunk->at, chunk->end, bytes, align)
               : ps_region_place(chunk, block_bytes(bytes, align), align);
}

/* The current chunk, then the tail of the one before it, then a large block or a new chunk. */
static void *find_room(struct ps_region_state *region, size_t bytes, size_t align) {
    struct ps_region_chunk *chunk = region->chunk;
    void *block = place(region, chunk, bytes, align);
    if (block == NULL && chunk->prev != NULL) {
        block = place(region, chunk->prev, bytes, align);
    }
    if (block != NULL) {
        return block;
    }
    size_t taken = block_bytes(bytes, align);
    size_t least = sizeof *chunk + taken + (align > PS_ALIGN_DEFAULT ? align : 0);
    bool has_canaries = ps_region_has_canaries(region); /* do not make a block a large one */
    if (ps_region_is_too_long(region, least)) {
        return has_canaries ? ps_region_alloc_large_watched(region, bytes, align)
                            : ps_region_alloc_large(region, taken, align);
    }
    least += has_canaries ? PS_CANARY_COST + PS_ALIGN_DEFAULT : 0;
    return ps_region_add_chunk(region, least) ? place(region, region->chunk, bytes, align) : NULL;
}

void *ps_region_alloc_slow(struct ps_region *public, size_t bytes, size_t align) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    if (!is_good_align(align)) {
        errno = EINVAL;
        return NULL;
    }
    if (bytes > PTRDIFF_MAX) {
        errno = ENOMEM;
        return NULL;
    }
    if (region->is_malloc) {
        return ps_region_alloc_large(region, ps_max(bytes, 1), align);
    }
    ps_region_leave(region);
    void *block = find_room(region, bytes, align);
    ps_region_enter(region);
    return block;
}

static bool is_newest(const struct ps_region_state *region, const struct ps_region_chunk *chunk,
                      char *block, size_t bytes, size_t align) {
    if (block < chunk->start || block >= chunk->at) {
        return false;
    }
    return ps_region_has_canaries(region)
               ? ps_canary_end(block) == chunk->at
               : ps_region_ends_at(block, ps_max(bytes, 1), align, chunk->at);
}

/* With PS_DEBUG=malloc: the newest of the others, as there would be no other chunk. */
static bool free_newest_small(struct ps_region_state *region, void *block) {
    struct ps_region_large *newest = region->large;
    while (newest != NULL && ps_region_is_large(region, newest)) {
        newest = newest->next;
    }
    if (newest == NULL || (void *)(newest + 1) != block) {
        return false;
    }
    ps_region_drop_large(region, newest);
    return true;
}

/*
 * The chunk whose newest block this is, or NULL. The block may be in the tail of the chunk before
 * the current one, and resizing it may just have added another: three are checked.
 */
static struct ps_region_chunk *chunk_of_newest(const struct ps_region_state *region, char *block,
                                               size_t bytes, size_t align) {
    struct ps_region_chunk *chunk = region->chunk;
    for (unsigned tries = 0; tries < NEWEST_TRIES && chunk != NULL; tries++) {
        if (is_newest(region, chunk, block, bytes, align)) {
            return chunk;
        }
        chunk = chunk->prev;
    }
    return NULL;
}

/* Without the newest block, its gap and its canaries, in a region that is left. */
static void drop_newest(struct ps_region_state *region, struct ps_region_chunk *chunk,
                        char *block) {
    if (ps_region_has_canaries(region)) {
        char *start = ps_canary_start(block);
        ps_region_mark_freed(start, (size_t)(chunk->at - start));
        chunk->at = start;
    } else {
        ps_region_lower(chunk, block);
    }
    ps_region_retire_empty(region);
    ps_region_enter(region);
}

static PS_COLD void check_not_newest(const struct ps_region_state *region, void *block,
                                     size_t bytes, size_t align) {
    const struct ps_region_chunk *chunk = region->chunk;
    for (unsigned tries = 0; tries < NEWEST_TRIES && chunk != NULL; tries++, chunk = chunk->prev) {
        if ((char *)block >= chunk->start && (char *)block < chunk->at) {
            ps_region_check_newest(region, chunk, block, bytes, align);
        }
    }
}

bool ps_region_free_last_slow(struct ps_region *public, void *block, size_t bytes, size_t align) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    if (block == NULL || !is_good_align(align) || bytes > PTRDIFF_MAX) {
        return false;
    }
    ps_region_check_block(region, block);
    if (region->is_malloc) {
        return free_newest_small(region, block);
    }
    bool has_canaries = ps_region_has_canaries(region);
    if (has_canaries) {
        ps_region_check_size(region, block, bytes);
    }
    ps_region_leave(region);
    struct ps_region_chunk *chunk = chunk_of_newest(region, block, bytes, align);
    if (chunk != NULL) {
        drop_newest(region, chunk, block);
    } else if (has_canaries) {
        check_not_newest(region, block, bytes, align);
    }
    return chunk != NULL;
}

bool ps_region_free_large(struct ps_region *public, void *block) {
    struct ps_region_state *region = ps_region_state(public);
    ps_region_check_thread(region);
    if (block == NULL) {
        return false;
    }
    ps_region_check_block(region, block);
    struct ps_region_large *large = ps_region_large_of(region, block);
    if (large == NULL || !ps_region_is_large(region, large)) {
        return false;
    }
    if (ps_region_has_canaries(region)) {
        ps_canary_verify(block, ps_region_canary_pool(region));
    }
    ps_region_drop_large(region, large);
    return true;
}

bool ps_region_free_slow(struct ps_region *public, void *block, size_t bytes, size_t align) {
    return ps_region_free_last_slow(public, block, bytes, align) ||
           ps_region_free_large(public, block);
}

/* A block of malloc's that does not move: the bytes cut off are not used any more. */
static void *resized(const struct ps_region_state *region, char *block, size_t old_bytes,
                     size_t new_bytes) {
    if (region->is_malloc && new_bytes < old_bytes) {
        ps_poison(block + new_bytes, old_bytes - new_bytes);
    }
    return block;
}

/* NULL when the block must move. One that is less aligned than `align` is taken for unaligned. */
static void *resize_in_place(struct ps_region_state *region, char *block, size_t old_bytes,
                             size_t new_bytes, size_t align) {
    if (ps_region_has_canaries(region)) {
        ps_region_leave(region);
        struct ps_region_chunk *chunk = chunk_of_newest(region, block, old_bytes, align);
        return ps_region_resize_watched(region, chunk, block, new_bytes);
    }
    struct ps_region_large *large = ps_region_large_of(region, block);
    if (large != NULL) {
        return new_bytes <= large->room_bytes ? resized(region, block, old_bytes, new_bytes) : NULL;
    }
    ps_region_leave(region);
    align = ((uintptr_t)block & (align - 1)) == 0 ? align : 1;
    size_t new_taken = block_bytes(new_bytes, align);
    struct ps_region_chunk *chunk = chunk_of_newest(region, block, old_bytes, align);
    if (chunk != NULL && new_taken <= (size_t)(chunk->end - block)) {
        chunk->at = block + new_taken;
        ps_region_enter(region);
        return block;
    }
    return new_bytes <= old_bytes ? resized(region, block, old_bytes, new_bytes) : NULL;
}

/* copy_bytes: how much of the old block is copied to the new one. */
void *ps_region_realloc_slow(struct ps_region *public, void *block, size_t old_bytes,
                             size_t new_bytes, size_t align, size_t copy_bytes) {
    struct ps_region_state *region = ps_region_state(public);
    if (block == NULL || !is_good_align(align) || new_bytes > PTRDIFF_MAX) {
        return ps_region_alloc_slow(public, new_bytes, align);
    }
    ps_region_check_thread(region);
    ps_region_check_block(region, block);
    if (ps_region_has_canaries(region)) {
        ps_region_check_size(region, block, old_bytes);
    }
    void *moved = resize_in_place(region, block, old_bytes, new_bytes, align);
    if (moved != NULL) {
        return moved;
    }
    moved = ps_region_alloc_aligned(public, new_bytes, align);
    if (moved != NULL) {
        memcpy(moved, block, ps_min(copy_bytes, new_bytes));
        if (region->is_malloc) { /* it must not be used any more: the tool is to see that */
            ps_region_drop_large(region, ps_region_large_of(region, block));
        } else {
            ps_region_free_slow(public, block, old_bytes, align);
        }
    }
    return moved;
}
