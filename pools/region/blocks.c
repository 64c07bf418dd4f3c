/* SPDX-License-Identifier: MIT */
/*
 * Allocating, freeing and resizing where the inline functions of poolshim/region.h end. Callers:
 * those, and this folder.
 */
#include "pools/region/region.h"

#include <errno.h>

enum {
    ALIGN_MAX = 1 << 30,
    NEWEST_TRIES = 3,
    FILL_FREED = 0xdf, /* fills freed memory of watched regions */
    FILL_SLACK = 0xb5  /* fills the bytes between a block's size and that size rounded up */
};

static bool is_good_align(size_t align) { return ps_is_power_of_two(align) && align <= ALIGN_MAX; }

/* Size 0 is 1. */
static size_t block_bytes(size_t bytes, size_t align) {
    return ps_region_block_bytes(ps_max(bytes, 1), align);
}

/* Marks a block of a watched region: its bytes may be used, the slack after them may not. The first
 * `kept` bytes belong to a block that is resized: their marks do not change. */
static void mark_used(const struct ps_region_state *region, char *block, size_t kept, size_t bytes,
                      size_t taken) {
    if (region->is_watched) {
        ps_unpoison(block + kept, taken - kept);
        memset(block + bytes, FILL_SLACK, taken - bytes);
        ps_poison(block + bytes, taken - bytes);
    }
}

/* These bytes may not be used any more, and a watched region shows it. */
static void mark_freed(const struct ps_region_state *region, char *memory, size_t bytes) {
    if (region->is_watched) {
        ps_unpoison(memory, bytes);
        memset(memory, FILL_FREED, bytes);
        ps_poison(memory, bytes);
    }
}

/* A block that ends where it does only because its size is rounded up has slack there; others that
 * the program uses are there when the caller was wrong about the alignment. */
static void check_slack(const struct ps_region_state *region, const char *block, size_t bytes,
                        size_t taken) {
    if (!region->is_watched) {
        return;
    }
    ps_unpoison_defined(block + bytes, taken - bytes);
    for (size_t i = bytes; i < taken; i++) {
        if ((unsigned char)block[i] != FILL_SLACK) {
            ps_debug_misuse("overrun, or freed with another alignment than its own: block", block,
                            region->chunks.name);
        }
    }
}

/* The current chunk, then the tail of the one before it, then a large block or a new chunk. */
static void *find_room(struct ps_region_state *region, size_t taken, size_t align) {
    struct ps_region_chunk *chunk = region->chunk;
    void *block = ps_region_place(chunk, taken, align);
    if (block == NULL && chunk->prev != NULL) {
        block = ps_region_place(chunk->prev, taken, align);
    }
    if (block != NULL) {
        return block;
    }
    size_t least = sizeof *chunk + taken + (align > PS_ALIGN_DEFAULT ? align : 0);
    if (ps_region_is_too_long(region, least)) {
        return ps_region_alloc_large(region, taken, align);
    }
    return ps_region_add_chunk(region, least) ? ps_region_place(region->chunk, taken, align) : NULL;
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
    size_t taken = block_bytes(bytes, align);
    ps_region_leave(region);
    void *block = find_room(region, taken, align);
    ps_region_enter(region);
    if (block != NULL) {
        mark_used(region, block, 0, bytes, taken);
    }
    return block;
}

static bool is_newest(const struct ps_region_chunk *chunk, const char *block, size_t bytes,
                      size_t align) {
    return block >= chunk->start && block < chunk->at &&
           ps_region_ends_at(block, ps_max(bytes, 1), align, chunk->at);
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
static struct ps_region_chunk *chunk_of_newest(const struct ps_region_state *region,
                                               const char *block, size_t bytes, size_t align) {
    struct ps_region_chunk *chunk = region->chunk;
    for (unsigned tries = 0; tries < NEWEST_TRIES && chunk != NULL; tries++) {
        if (is_newest(chunk, block, bytes, align)) {
            return chunk;
        }
        chunk = chunk->prev;
    }
    return NULL;
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
    ps_region_leave(region);
    struct ps_region_chunk *chunk = chunk_of_newest(region, block, bytes, align);
    if (chunk == NULL) {
        return false;
    }
    size_t taken = (size_t)(chunk->at - (char *)block);
    check_slack(region, block, bytes, taken);
    mark_freed(region, block, taken);
    ps_region_lower(chunk, block);
    ps_region_retire_empty(region);
    ps_region_enter(region);
    return true;
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
    ps_region_drop_large(region, large);
    return true;
}

bool ps_region_free_slow(struct ps_region *public, void *block, size_t bytes, size_t align) {
    return ps_region_free_last_slow(public, block, bytes, align) ||
           ps_region_free_large(public, block);
}

/* A block that does not move, and takes as many bytes as before: the bytes cut off become slack.
 */
static void *resized(const struct ps_region_state *region, char *block, size_t old_bytes,
                     size_t new_bytes) {
    mark_used(region, block, ps_min(old_bytes, new_bytes), new_bytes, ps_max(old_bytes, new_bytes));
    return block;
}

/* The newest block of the chunk, which has room for it. */
static void *resize_newest(struct ps_region_state *region, struct ps_region_chunk *chunk,
                           char *block, size_t old_bytes, size_t new_bytes, size_t new_taken) {
    size_t old_taken = (size_t)(chunk->at - block);
    check_slack(region, block, old_bytes, old_taken);
    if (new_taken < old_taken) {
        mark_freed(region, block + new_taken, old_taken - new_taken);
    }
    mark_used(region, block, ps_min(old_bytes, new_bytes), new_bytes, new_taken);
    chunk->at = block + new_taken;
    ps_region_enter(region);
    return block;
}

/* NULL when the block must move. One that is less aligned than `align` is taken for unaligned. */
static void *resize_in_place(struct ps_region_state *region, char *block, size_t old_bytes,
                             size_t new_bytes, size_t align) {
    struct ps_region_large *large = ps_region_large_of(region, block);
    if (large != NULL) {
        return new_bytes <= large->room_bytes ? resized(region, block, old_bytes, new_bytes) : NULL;
    }
    ps_region_leave(region);
    align = ((uintptr_t)block & (align - 1)) == 0 ? align : 1;
    size_t new_taken = block_bytes(new_bytes, align);
    struct ps_region_chunk *chunk = chunk_of_newest(region, block, old_bytes, align);
    if (chunk != NULL && new_taken <= (size_t)(chunk->end - block)) {
        return resize_newest(region, chunk, block, old_bytes, new_bytes, new_taken);
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
