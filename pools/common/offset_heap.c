/* SPDX-License-Identifier: MIT */
/*
 * Take, release and resize in a heap over offsets: find, split, merge. Every loop has a constant
 * bound. See offset_heap.h. Each change goes through ps_offset_store.
 */
#include "pools/common/offset_heap.h"
#include "pools/common/debug.h"

static inline void put(const struct ps_offset_memory *memory, uint64_t *place, uint64_t value) {
    ps_offset_store(memory, place, value);
}

static inline void set_class(const struct ps_offset_memory *memory, size_t class) {
    struct ps_fit_index *index = &memory->heap->index;
    if (!ps_fit_has(index, class)) {
        put(memory, &index->bits[class / 64], index->bits[class / 64] | (uint64_t)1 << class % 64);
        put(memory, &index->summary, index->summary | (uint64_t)1 << class / 64);
    }
}

static inline void clear_class(const struct ps_offset_memory *memory, size_t class) {
    struct ps_fit_index *index = &memory->heap->index;
    uint64_t *word = &index->bits[class / 64];
    put(memory, word, *word & ~((uint64_t)1 << class % 64));
    if (*word == 0) {
        put(memory, &index->summary, index->summary & ~((uint64_t)1 << class / 64));
    }
}

/* Puts a free block, whose neighbours are used, on its list and marks it in the next block. */
static void list_in(const struct ps_offset_memory *memory, uint64_t offset, uint64_t size) {
    struct ps_offset_heap *heap = memory->heap;
    size_t class = ps_fit_class_of(size);
    struct ps_offset_block *block = ps_offset_block(memory, offset);
    uint64_t next = heap->heads[class];
    put(memory, &block->head, heap->tag | size | PS_FIT_FREE);
    put(memory, &block->next, next);
    put(memory, &block->previous, 0);
    if (next != 0) {
        put(memory, &ps_offset_block(memory, next)->previous, offset);
    }
    put(memory, &heap->heads[class], offset);
    set_class(memory, class);
    uint64_t *behind = &ps_offset_block(memory, offset + size)->head;
    if ((*behind & PS_FIT_PREVIOUS_FREE) == 0) {
        put(memory, behind, *behind | PS_FIT_PREVIOUS_FREE);
    }
    put(memory, ps_offset_back(memory, offset + size), offset);
}

static void list_out(const struct ps_offset_memory *memory, uint64_t offset) {
    struct ps_offset_block *block = ps_offset_block(memory, offset);
    if (block->next != 0) {
        put(memory, &ps_offset_block(memory, block->next)->previous, block->previous);
    }
    if (block->previous != 0) {
        put(memory, &ps_offset_block(memory, block->previous)->next, block->next);
        return;
    }
    size_t class = ps_fit_class_of(ps_fit_bytes(block->head));
    put(memory, &memory->heap->heads[class], block->next);
    if (block->next == 0) {
        clear_class(memory, class);
    }
}

/* See ps_fit_gap. */
static uint64_t gap_before(uint64_t offset, uint64_t align) {
    return ps_fit_gap(offset + PS_FIT_HEAD, align);
}

/* Tries a few blocks of a class, which may be too short. */
static uint64_t find_near(const struct ps_offset_memory *memory, size_t class, uint64_t size,
                          uint64_t align) {
    uint64_t offset = memory->heap->heads[class];
    for (int tries = 0; offset != 0 && tries < PS_FIT_NEAR_MAX; tries++) {
        const struct ps_offset_block *block = ps_offset_block(memory, offset);
        if (ps_fit_bytes(block->head) >= size + gap_before(offset, align)) {
            return offset;
        }
        offset = block->next;
    }
    return 0;
}

/* A free block in which an aligned block of `size` fits; 0: none. */
static uint64_t find(const struct ps_offset_memory *memory, uint64_t size, uint64_t align) {
    uint64_t least = align > PS_FIT_UNIT ? size + align + PS_FIT_UNIT : size;
    size_t class = ps_fit_find(&memory->heap->index, ps_fit_class_from(least));
    if (class != PS_FIT_NONE) {
        return memory->heap->heads[class];
    }
    uint64_t offset = find_near(memory, ps_fit_class_of(least), size, align);
    return offset != 0 ? offset : find_near(memory, ps_fit_class_of(size), size, align);
}

/* Cuts a used block of `total`, before a used one, down to `size`; `flags` are those of its head.
 * The rest becomes free. */
static void cut(const struct ps_offset_memory *memory, uint64_t offset, uint64_t total,
                uint64_t size, uint64_t flags) {
    if (total - size >= PS_FIT_MIN) {
        list_in(memory, offset + size, total - size);
        total = size;
    } else {
        uint64_t *behind = &ps_offset_block(memory, offset + total)->head;
        put(memory, behind, *behind & ~(uint64_t)PS_FIT_PREVIOUS_FREE);
    }
    put(memory, &ps_offset_block(memory, offset)->head, memory->heap->tag | total | flags);
}

uint64_t ps_offset_heap_take(const struct ps_offset_memory *memory, uint64_t size, uint64_t align) {
    uint64_t offset = find(memory, size, align);
    if (offset == 0) {
        return 0;
    }
    uint64_t total = ps_fit_bytes(ps_offset_block(memory, offset)->head);
    uint64_t gap = gap_before(offset, align);
    list_out(memory, offset);
    if (gap != 0) {
        list_in(memory, offset, gap);
    }
    cut(memory, offset + gap, total - gap, size, gap != 0 ? PS_FIT_PREVIOUS_FREE : 0);
    return offset + gap;
}

void ps_offset_heap_release(const struct ps_offset_memory *memory, uint64_t offset) {
    struct ps_offset_block *block = ps_offset_block(memory, offset);
    uint64_t head = block->head;
    uint64_t size = ps_fit_bytes(head);
    uint64_t behind_head = ps_offset_block(memory, offset + size)->head;
    if ((behind_head & PS_FIT_FREE) != 0) {
        list_out(memory, offset + size);
        size += ps_fit_bytes(behind_head);
    }
    if ((head & PS_FIT_PREVIOUS_FREE) != 0) {
        put(memory, &block->head, head | PS_FIT_FREE); /* a second free sees it when it is merged */
        offset = *ps_offset_back(memory, offset);
        list_out(memory, offset);
        size += ps_fit_bytes(ps_offset_block(memory, offset)->head);
    }
    list_in(memory, offset, size);
}

bool ps_offset_heap_resize(const struct ps_offset_memory *memory, uint64_t offset, uint64_t size) {
    uint64_t head = ps_offset_block(memory, offset)->head;
    uint64_t flags = head & PS_FIT_PREVIOUS_FREE;
    uint64_t total = ps_fit_bytes(head);
    uint64_t behind_head = ps_offset_block(memory, offset + total)->head;
    uint64_t behind = (behind_head & PS_FIT_FREE) != 0 ? ps_fit_bytes(behind_head) : 0;
    if (total + behind < size) {
        return false;
    }
    if (size > total || (behind != 0 && size < total)) {
        list_out(memory, offset + total);
        cut(memory, offset, total + behind, size, flags);
    } else if (total - size >= PS_FIT_MIN) {
        cut(memory, offset, total, size, flags);
    }
    return true;
}

void ps_offset_heap_format(const struct ps_offset_memory *memory, uint64_t tag, uint64_t bytes) {
    struct ps_offset_memory unlogged = {memory->base, memory->heap, NULL};
    memory->heap->tag = (tag | 1) << PS_FIT_TAG_SHIFT;
    memory->heap->end = bytes - PS_FIT_HEAD;
    ps_offset_block(memory, memory->heap->end)->head = memory->heap->tag;
    uint64_t first = ps_offset_first(memory);
    list_in(&unlogged, first, memory->heap->end - first);
}

/* The old stopper becomes the head of the added memory. */
void ps_offset_heap_extend(const struct ps_offset_memory *memory, uint64_t bytes) {
    struct ps_offset_heap *heap = memory->heap;
    uint64_t offset = heap->end;
    uint64_t added = bytes - ps_offset_bytes(memory);
    uint64_t *old_stopper = &ps_offset_block(memory, offset)->head;
    put(memory, old_stopper, heap->tag | added | (*old_stopper & PS_FIT_PREVIOUS_FREE));
    put(memory, &heap->end, offset + added);
    put(memory, &ps_offset_block(memory, heap->end)->head, heap->tag);
    ps_offset_heap_release(memory, offset);
}

uint64_t ps_offset_heap_used(const struct ps_offset_memory *memory, const void *payload,
                             const char *what, const char *name) {
    uint64_t offset = (uint64_t)((uintptr_t)payload - (uintptr_t)memory->base) - PS_FIT_HEAD;
    if (offset < ps_offset_first(memory) || offset >= memory->heap->end ||
        (offset + PS_FIT_HEAD) % PS_FIT_UNIT != 0) {
        ps_debug_misuse(what, payload, name);
    }
    uint64_t head = ps_offset_block(memory, offset)->head;
    if (((head ^ memory->heap->tag) & PS_FIT_TAG_MASK) != 0) {
        ps_debug_misuse(what, payload, name);
    }
    if ((head & PS_FIT_FREE) != 0) {
        ps_debug_misuse("double free of", payload, name);
    }
    return offset;
}
