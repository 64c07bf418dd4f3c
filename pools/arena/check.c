/* SPDX-License-Identifier: MIT */
/*
 * Checks the heap of an arena without changing it. Uses no offset before it is known to be within
 * the arena, because the file may be damaged. See heap.h.
 */
#include "pools/arena/heap.h"
#include "pools/engine/base/bits.h"

static bool is_place(const struct heap *heap, uint64_t offset) {
    return offset >= HEAP_FIRST && offset <= heap->end && (offset + PS_FIT_HEAD) % PS_FIT_UNIT == 0;
}

static const char *block_fault(const struct heap *heap, uint64_t offset, bool is_before_free) {
    const struct heap_block *block = heap_block_at(heap, offset);
    uint64_t size = ps_fit_bytes(block->head);
    if ((block->head & PS_FIT_TAG_MASK) != heap->tag) {
        return "a head is overwritten";
    }
    if (size < PS_FIT_MIN || size > heap->end - offset) {
        return "a block ends outside the arena";
    }
    if (((block->head & PS_FIT_PREVIOUS_FREE) != 0) != is_before_free) {
        return "a head is wrong about the block before it";
    }
    if ((block->head & PS_FIT_FREE) == 0) {
        return NULL;
    }
    if (is_before_free) {
        return "two free blocks are side by side";
    }
    if (*heap_back(heap, offset + size) != offset) {
        return "a free block's back offset is overwritten";
    }
    uint64_t listed = block->previous != 0 && is_place(heap, block->previous)
                          ? heap_block_at(heap, block->previous)->next
                          : heap->heads[ps_fit_class_of(size)];
    return listed != offset ? "a free block is not on its list" : NULL;
}

/* Counts the blocks on the lists down. */
static const char *lists_fault(const struct heap *heap, size_t free_count) {
    for (size_t class = 0; class < PS_FIT_CLASSES; class ++) {
        if (ps_fit_has(&heap->index, class) != (heap->heads[class] != 0)) {
            return "a bit is wrong about its list";
        }
        for (uint64_t offset = heap->heads[class]; offset != 0;) {
            if (!is_place(heap, offset) || free_count-- == 0) {
                return "a list leads astray";
            }
            const struct heap_block *block = heap_block_at(heap, offset);
            if ((block->head & PS_FIT_FREE) == 0 ||
                ps_fit_class_of(ps_fit_bytes(block->head)) != class) {
                return "a block is on the list of another class";
            }
            offset = block->next;
        }
    }
    return free_count != 0 ? "a free block is on no list" : NULL;
}

const char *ps_arena_check(const struct ps_arena *arena) {
    const struct heap *heap = heap_of(arena);
    if (heap->end != arena->view.bytes - PS_FIT_HEAD) {
        return "the heap's record is overwritten";
    }
    size_t free_count = 0;
    bool is_before_free = false;
    for (uint64_t offset = HEAP_FIRST; offset < heap->end;) {
        const char *fault = block_fault(heap, offset, is_before_free);
        if (fault != NULL) {
            return fault;
        }
        uint64_t head = heap_block_at(heap, offset)->head;
        is_before_free = (head & PS_FIT_FREE) != 0;
        free_count += is_before_free;
        offset += ps_fit_bytes(head);
    }
    uint64_t stopper = heap->tag | (is_before_free ? PS_FIT_PREVIOUS_FREE : 0);
    if (heap_block_at(heap, heap->end)->head != stopper) {
        return "the stopper is overwritten";
    }
    if (!ps_fit_check(&heap->index)) {
        return "the summary is wrong about its bits";
    }
    return lists_fault(heap, free_count);
}

void ps_arena_stats(const struct ps_arena *arena, struct ps_arena_stats *stats) {
    const struct heap *heap = heap_of(arena);
    *stats = (struct ps_arena_stats){
        .file_bytes = arena->view.bytes,
        .pending_pages = arena->is_pending ? arena->pending.count : 0,
    };
    for (uint64_t offset = HEAP_FIRST; offset < heap->end;) {
        uint64_t head = heap_block_at(heap, offset)->head;
        uint64_t bytes = ps_fit_bytes(head) - PS_FIT_HEAD;
        if ((head & PS_FIT_FREE) == 0) {
            stats->used_count++;
            stats->used_bytes += bytes;
        } else {
            stats->free_count++;
            stats->free_bytes += bytes;
            stats->largest_free_bytes = ps_max(stats->largest_free_bytes, bytes);
        }
        offset += ps_fit_bytes(head);
    }
}
