/* SPDX-License-Identifier: MIT */
/*
 * Walks over a heap of offsets: its check and its counts. The check uses no offset before it is
 * known to be within the memory, because that may be damaged. See offset_heap.h.
 */
#include "pools/common/offset_heap.h"

static bool is_place(const struct ps_offset_memory *memory, uint64_t offset) {
    return offset >= ps_offset_first(memory) && offset <= memory->heap->end &&
           (offset + PS_FIT_HEAD) % PS_FIT_UNIT == 0;
}

static const char *block_fault(const struct ps_offset_memory *memory, uint64_t offset,
                               bool is_before_free) {
    const struct ps_offset_heap *heap = memory->heap;
    const struct ps_offset_block *block = ps_offset_block(memory, offset);
    uint64_t size = ps_fit_bytes(block->head);
    if ((block->head & PS_FIT_TAG_MASK) != heap->tag) {
        return "a head is overwritten";
    }
    if (size < PS_FIT_MIN || size > heap->end - offset) {
        return "a block ends outside the heap";
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
    if (*ps_offset_back(memory, offset + size) != offset) {
        return "a free block's back offset is overwritten";
    }
    uint64_t listed = block->previous != 0 && is_place(memory, block->previous)
                          ? ps_offset_block(memory, block->previous)->next
                          : heap->heads[ps_fit_class_of(size)];
    return listed != offset ? "a free block is not on its list" : NULL;
}

/* Counts the blocks on the lists down. */
static const char *lists_fault(const struct ps_offset_memory *memory, size_t free_count) {
    const struct ps_offset_heap *heap = memory->heap;
    for (size_t class = 0; class < PS_FIT_CLASSES; class ++) {
        if (ps_fit_has(&heap->index, class) != (heap->heads[class] != 0)) {
            return "a bit is wrong about its list";
        }
        for (uint64_t offset = heap->heads[class]; offset != 0;) {
            if (!is_place(memory, offset) || free_count-- == 0) {
                return "a list leads astray";
            }
            const struct ps_offset_block *block = ps_offset_block(memory, offset);
            if ((block->head & PS_FIT_FREE) == 0 ||
                ps_fit_class_of(ps_fit_bytes(block->head)) != class) {
                return "a block is on the list of another class";
            }
            offset = block->next;
        }
    }
    return free_count != 0 ? "a free block is on no list" : NULL;
}

const char *ps_offset_heap_check(const struct ps_offset_memory *memory, uint64_t bytes) {
    const struct ps_offset_heap *heap = memory->heap;
    if (heap->end != bytes - PS_FIT_HEAD) {
        return "the heap's record is overwritten";
    }
    size_t free_count = 0;
    bool is_before_free = false;
    for (uint64_t offset = ps_offset_first(memory); offset < heap->end;) {
        const char *fault = block_fault(memory, offset, is_before_free);
        if (fault != NULL) {
            return fault;
        }
        uint64_t head = ps_offset_block(memory, offset)->head;
        is_before_free = (head & PS_FIT_FREE) != 0;
        free_count += is_before_free;
        offset += ps_fit_bytes(head);
    }
    uint64_t stopper = heap->tag | (is_before_free ? PS_FIT_PREVIOUS_FREE : 0);
    if (ps_offset_block(memory, heap->end)->head != stopper) {
        return "the stopper is overwritten";
    }
    if (!ps_fit_check(&heap->index)) {
        return "the summary is wrong about its bits";
    }
    return lists_fault(memory, free_count);
}

void ps_offset_heap_count(const struct ps_offset_memory *memory, struct ps_offset_counts *counts) {
    *counts = (struct ps_offset_counts){0};
    for (uint64_t offset = ps_offset_first(memory); offset < memory->heap->end;) {
        uint64_t head = ps_offset_block(memory, offset)->head;
        uint64_t bytes = ps_fit_bytes(head) - PS_FIT_HEAD;
        if ((head & PS_FIT_FREE) == 0) {
            counts->used_count++;
            counts->used_bytes += bytes;
        } else {
            counts->free_count++;
            counts->free_bytes += bytes;
            counts->largest_free_bytes = ps_max(counts->largest_free_bytes, bytes);
        }
        offset += ps_fit_bytes(head);
    }
}
