/* SPDX-License-Identifier: MIT */
/*
 * The heap inside an arena: TLSF, as in tlsf.h, over offsets, in one range that grows at its end.
 * Its record and its blocks are contents like any other, so a commit takes them along and a
 * rollback brings them back. Owner: this file and check.c. No locks.
 */
#include "pools/arena/heap.h"

#include "pools/common/debug.h"
#include "pools/engine/base/bits.h"

#include <errno.h>
#include <string.h>

/* Puts a free block, whose neighbours are used, on its list and marks it in the block behind. */
static void list_in(struct heap *heap, uint64_t offset, uint64_t size) {
    size_t class = ps_fit_class_of(size);
    struct heap_block *block = heap_block_at(heap, offset);
    *block = (struct heap_block){heap->tag | size | PS_FIT_FREE, heap->heads[class], 0};
    if (block->next != 0) {
        heap_block_at(heap, block->next)->previous = offset;
    }
    heap->heads[class] = offset;
    ps_fit_set(&heap->index, class);
    heap_block_at(heap, offset + size)->head |= PS_FIT_PREVIOUS_FREE;
    *heap_back(heap, offset + size) = offset;
}

static void list_out(struct heap *heap, uint64_t offset) {
    struct heap_block *block = heap_block_at(heap, offset);
    if (block->next != 0) {
        heap_block_at(heap, block->next)->previous = block->previous;
    }
    if (block->previous != 0) {
        heap_block_at(heap, block->previous)->next = block->next;
        return;
    }
    size_t class = ps_fit_class_of(ps_fit_bytes(block->head));
    heap->heads[class] = block->next;
    if (block->next == 0) {
        ps_fit_clear(&heap->index, class);
    }
}

/* See ps_fit_gap. */
static uint64_t gap_before(uint64_t offset, uint64_t align) {
    return ps_fit_gap(offset + PS_FIT_HEAD, align);
}

/* A few blocks of a class, of which some may do. */
static uint64_t find_near(const struct heap *heap, size_t class, uint64_t size, uint64_t align) {
    uint64_t offset = heap->heads[class];
    for (int tries = 0; offset != 0 && tries < PS_FIT_NEAR_MAX; tries++) {
        const struct heap_block *block = heap_block_at(heap, offset);
        if (ps_fit_bytes(block->head) >= size + gap_before(offset, align)) {
            return offset;
        }
        offset = block->next;
    }
    return 0;
}

/* A free block in which an aligned block of `size` fits; 0: none. */
static uint64_t find(const struct heap *heap, uint64_t size, uint64_t align) {
    uint64_t least = align > PS_FIT_UNIT ? size + align + PS_FIT_UNIT : size;
    size_t class = ps_fit_find(&heap->index, ps_fit_class_from(least));
    if (class != PS_FIT_NONE) {
        return heap->heads[class];
    }
    uint64_t offset = find_near(heap, ps_fit_class_of(least), size, align);
    return offset != 0 ? offset : find_near(heap, ps_fit_class_of(size), size, align);
}

/* Cuts a used block of `total` down to `size`; the rest, whose neighbour behind is used, becomes
 * free. */
static void cut(struct heap *heap, uint64_t offset, uint64_t total, uint64_t size) {
    struct heap_block *block = heap_block_at(heap, offset);
    uint64_t flags = block->head & PS_FIT_PREVIOUS_FREE;
    if (total - size >= PS_FIT_MIN) {
        list_in(heap, offset + size, total - size);
        total = size;
    } else {
        heap_block_at(heap, offset + total)->head &= ~(uint64_t)PS_FIT_PREVIOUS_FREE;
    }
    block->head = heap->tag | total | flags;
}

static void *take(struct heap *heap, uint64_t size, uint64_t align) {
    uint64_t offset = find(heap, size, align);
    if (offset == 0) {
        return NULL;
    }
    uint64_t total = ps_fit_bytes(heap_block_at(heap, offset)->head);
    uint64_t gap = gap_before(offset, align);
    list_out(heap, offset);
    heap_block_at(heap, offset + gap)->head = heap->tag;
    if (gap != 0) {
        list_in(heap, offset, gap);
    }
    cut(heap, offset + gap, total - gap, size);
    return heap_at(heap, offset + gap + PS_FIT_HEAD);
}

static void release(struct heap *heap, uint64_t offset) {
    struct heap_block *block = heap_block_at(heap, offset);
    uint64_t size = ps_fit_bytes(block->head);
    uint64_t behind_head = heap_block_at(heap, offset + size)->head;
    block->head |= PS_FIT_FREE; /* seen by a second free when it has been merged */
    if ((behind_head & PS_FIT_FREE) != 0) {
        list_out(heap, offset + size);
        size += ps_fit_bytes(behind_head);
    }
    if ((block->head & PS_FIT_PREVIOUS_FREE) != 0) {
        uint64_t before = *heap_back(heap, offset);
        list_out(heap, before);
        size += ps_fit_bytes(heap_block_at(heap, before)->head);
        offset = before;
    }
    list_in(heap, offset, size);
}

void ps_arena_heap_format(struct ps_arena *arena) {
    struct heap *heap = heap_of(arena);
    memset(heap, 0, sizeof *heap);
    heap->tag = (arena->committed.identity | 1) << PS_FIT_TAG_SHIFT;
    heap->end = arena->view.bytes - PS_FIT_HEAD;
    heap_block_at(heap, heap->end)->head = heap->tag;
    list_in(heap, HEAP_FIRST, heap->end - HEAP_FIRST);
}

/* The old stopper becomes the head of the added memory. */
void ps_arena_heap_extend(struct ps_arena *arena, size_t old_bytes) {
    struct heap *heap = heap_of(arena);
    uint64_t added = arena->view.bytes - old_bytes;
    struct heap_block *old_stopper = heap_block_at(heap, heap->end);
    old_stopper->head = heap->tag | added | (old_stopper->head & PS_FIT_PREVIOUS_FREE);
    uint64_t offset = heap->end;
    heap->end += added;
    heap_block_at(heap, heap->end)->head = heap->tag;
    release(heap, offset);
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

static void *alloc(struct ps_arena *arena, size_t bytes, size_t align) {
    if ((arena->flags & PS_ARENA_READ) != 0) {
        errno = EROFS;
        return NULL;
    }
    if (bytes > HEAP_LARGEST - (uint64_t)2 * ARENA_PAGE) {
        errno = ENOMEM;
        return NULL;
    }
    uint64_t size = ps_fit_bytes_for(bytes);
    void *payload = take(heap_of(arena), size, align);
    if (payload == NULL && grow_for(arena, size, align)) {
        payload = take(heap_of(arena), size, align);
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

/* The offset of a used block's head; ends the program when it is none. */
static uint64_t used_block(const struct ps_arena *arena, const void *payload) {
    uint64_t offset = (uint64_t)((uintptr_t)payload - (uintptr_t)arena->view.base) - PS_FIT_HEAD;
    if (offset < HEAP_FIRST || offset >= arena->view.bytes ||
        (offset + PS_FIT_HEAD) % PS_FIT_UNIT != 0) {
        ps_debug_misuse("not a block of this arena:", payload, arena->chunks.name);
    }
    const struct heap *heap = heap_of(arena);
    uint64_t head = heap_block_at(heap, offset)->head;
    if (((head ^ heap->tag) & PS_FIT_TAG_MASK) != 0) {
        ps_debug_misuse("not a block of this arena:", payload, arena->chunks.name);
    }
    if ((head & PS_FIT_FREE) != 0) {
        ps_debug_misuse("double free of", payload, arena->chunks.name);
    }
    return offset;
}

void ps_arena_free(struct ps_arena *arena, void *payload) {
    if (payload != NULL && (arena->flags & PS_ARENA_READ) == 0) {
        release(heap_of(arena), used_block(arena, payload));
    }
}

size_t ps_arena_usable_size(const struct ps_arena *arena, const void *payload) {
    if (payload == NULL) {
        return 0;
    }
    uint64_t offset = used_block(arena, payload);
    return ps_fit_bytes(heap_block_at(heap_of(arena), offset)->head) - PS_FIT_HEAD;
}

/* In place. False: it does not fit there. */
static bool resize(struct heap *heap, uint64_t offset, uint64_t size) {
    struct heap_block *block = heap_block_at(heap, offset);
    uint64_t total = ps_fit_bytes(block->head);
    uint64_t behind_head = heap_block_at(heap, offset + total)->head;
    uint64_t behind = (behind_head & PS_FIT_FREE) != 0 ? ps_fit_bytes(behind_head) : 0;
    if (total + behind < size) {
        return false;
    }
    if (size > total || (behind != 0 && size < total)) {
        list_out(heap, offset + total);
        cut(heap, offset, total + behind, size);
    } else if (total - size >= PS_FIT_MIN) {
        cut(heap, offset, total, size);
    }
    return true;
}

void *ps_arena_realloc(struct ps_arena *arena, void *payload, size_t bytes) {
    if (payload == NULL || (arena->flags & PS_ARENA_READ) != 0) {
        return ps_arena_alloc(arena, bytes);
    }
    uint64_t offset = used_block(arena, payload);
    if (bytes <= HEAP_LARGEST - (uint64_t)2 * ARENA_PAGE &&
        resize(heap_of(arena), offset, ps_fit_bytes_for(bytes))) {
        return payload;
    }
    void *moved = ps_arena_alloc(arena, bytes);
    if (moved != NULL) {
        memcpy(moved, payload, ps_arena_usable_size(arena, payload));
        release(heap_of(arena), offset);
    }
    return moved;
}

ps_offset ps_arena_root(const struct ps_arena *arena) { return heap_of(arena)->root; }

void ps_arena_set_root(struct ps_arena *arena, ps_offset root) { heap_of(arena)->root = root; }
