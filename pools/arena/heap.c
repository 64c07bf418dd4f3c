/* SPDX-License-Identifier: MIT */
/*
 * The heap inside an arena, that of common/offset_heap.h. Its record and its blocks are contents
 * like any other, so a commit takes them along and a rollback brings them back. No locks.
 */
#include "pools/arena/arena.h"
#include "pools/common/offset_heap.h"
#include "pools/engine/base/bits.h"

#include <errno.h>
#include <string.h>

static struct ps_offset_memory heap_memory(const struct ps_arena *arena) {
    char *base = arena->view.base;
    return (struct ps_offset_memory){base, (void *)(base + ARENA_HEAP), NULL};
}

void ps_arena_heap_format(struct ps_arena *arena) {
    struct ps_offset_memory memory = heap_memory(arena);
    memset(memory.heap, 0, sizeof *memory.heap);
    ps_offset_heap_format(&memory, arena->committed.identity, arena->view.bytes);
}

void ps_arena_heap_extend(struct ps_arena *arena) {
    struct ps_offset_memory memory = heap_memory(arena);
    ps_offset_heap_extend(&memory, arena->view.bytes);
}

static bool grow_for(struct ps_arena *arena, uint64_t size, uint64_t align) {
    size_t least = arena->view.bytes + size + align + ARENA_PAGE;
    size_t most = ps_min(arena->mapped_bytes, arena->max_bytes) & ~(size_t)(ARENA_PAGE - 1);
    if (least > most) {
        errno = ENOMEM;
        return false;
    }
    return ps_arena_extend(arena, ps_max(least, ps_min(2 * arena->view.bytes, most))) ||
           ps_arena_extend(arena, least);
}

static void *take(const struct ps_arena *arena, uint64_t size, uint64_t align) {
    struct ps_offset_memory memory = heap_memory(arena);
    uint64_t offset = ps_offset_heap_take(&memory, size, align);
    return offset != 0 ? ps_offset_at(&memory, offset + PS_FIT_HEAD) : NULL;
}

static void *alloc(struct ps_arena *arena, size_t bytes, size_t align) {
    if ((arena->flags & PS_ARENA_READ) != 0) {
        errno = EROFS;
        return NULL;
    }
    if (bytes > PS_OFFSET_HEAP_LARGEST - (uint64_t)2 * ARENA_PAGE) {
        errno = ENOMEM;
        return NULL;
    }
    uint64_t size = ps_fit_bytes_for(bytes);
    void *payload = take(arena, size, align);
    if (payload == NULL && grow_for(arena, size, align)) {
        payload = take(arena, size, align);
    }
    return payload;
}

void *ps_arena_alloc(struct ps_arena *arena, size_t bytes) {
    return alloc(arena, bytes, PS_FIT_UNIT);
}

void *ps_arena_alloc_aligned(struct ps_arena *arena, size_t bytes, size_t align) {
    if (!ps_is_power_of_two(align) || align > ARENA_PAGE) {
        errno = EINVAL;
        return NULL;
    }
    return alloc(arena, bytes, ps_max(align, PS_FIT_UNIT));
}

static uint64_t used_block(const struct ps_arena *arena, const void *payload) {
    struct ps_offset_memory memory = heap_memory(arena);
    return ps_offset_heap_used(&memory, payload, "not a block of this arena:", arena->chunks.name);
}

void ps_arena_free(struct ps_arena *arena, void *payload) {
    if (payload != NULL && (arena->flags & PS_ARENA_READ) == 0) {
        struct ps_offset_memory memory = heap_memory(arena);
        ps_offset_heap_release(&memory, used_block(arena, payload));
    }
}

size_t ps_arena_usable_size(const struct ps_arena *arena, const void *payload) {
    if (payload == NULL) {
        return 0;
    }
    struct ps_offset_memory memory = heap_memory(arena);
    uint64_t offset = used_block(arena, payload);
    return ps_fit_bytes(ps_offset_block(&memory, offset)->head) - PS_FIT_HEAD;
}

void *ps_arena_realloc(struct ps_arena *arena, void *payload, size_t bytes) {
    if (payload == NULL || (arena->flags & PS_ARENA_READ) != 0) {
        return ps_arena_alloc(arena, bytes);
    }
    struct ps_offset_memory memory = heap_memory(arena);
    uint64_t offset = used_block(arena, payload);
    if (bytes <= PS_OFFSET_HEAP_LARGEST - (uint64_t)2 * ARENA_PAGE &&
        ps_offset_heap_resize(&memory, offset, ps_fit_bytes_for(bytes))) {
        return payload;
    }
    void *moved = ps_arena_alloc(arena, bytes);
    if (moved != NULL) {
        memcpy(moved, payload, ps_arena_usable_size(arena, payload));
        ps_offset_heap_release(&memory, offset);
    }
    return moved;
}

ps_offset ps_arena_root(const struct ps_arena *arena) { return heap_memory(arena).heap->root; }

void ps_arena_set_root(struct ps_arena *arena, ps_offset root) {
    heap_memory(arena).heap->root = root;
}

const char *ps_arena_check(const struct ps_arena *arena) {
    struct ps_offset_memory memory = heap_memory(arena);
    return ps_offset_heap_check(&memory, arena->view.bytes);
}

void ps_arena_stats(const struct ps_arena *arena, struct ps_arena_stats *stats) {
    struct ps_offset_memory memory = heap_memory(arena);
    struct ps_offset_counts counts;
    ps_offset_heap_count(&memory, &counts);
    *stats = (struct ps_arena_stats){
        .file_bytes = arena->view.bytes,
        .used_count = counts.used_count,
        .used_bytes = counts.used_bytes,
        .free_count = counts.free_count,
        .free_bytes = counts.free_bytes,
        .largest_free_bytes = counts.largest_free_bytes,
        .pending_pages = arena->is_pending ? arena->pending.count : 0,
    };
}
