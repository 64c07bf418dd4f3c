/* SPDX-License-Identifier: MIT */
/*
 * The layout of the heap in an arena: its record, then blocks side by side, then a stopper, the
 * head of a used block of size 0. All places are offsets from the arena's start. Callers: heap.c,
 * check.c.
 *
 *   no two free blocks are side by side
 *   head == tag | size in bytes with the head, a multiple of 16 | FREE | PREVIOUS_FREE
 *   the last word of a free block is its own offset, for the block behind it
 *   bit c of `bits` is set <=> heads[c] != 0; bit w of `summary` is set <=> bits[w] != 0
 */
#ifndef PS_ARENA_HEAP_H
#define PS_ARENA_HEAP_H

#include "pools/arena/arena.h"

enum {
    HEAP_FREE = 1,
    HEAP_PREVIOUS_FREE = 2,
    HEAP_UNIT = 16,
    HEAP_HEAD = 8,
    HEAP_MIN = 32,
    HEAP_TAG_SHIFT = 48,
    HEAP_LARGEST_SHIFT = 46,
    HEAP_CLASSES = (HEAP_LARGEST_SHIFT - 9 + 2) * 32,
    HEAP_WORDS = (HEAP_CLASSES + 63) / 64,
};

#define HEAP_LARGEST ((uint64_t)1 << HEAP_LARGEST_SHIFT)
#define HEAP_TAG_MASK (~(uint64_t)0 << HEAP_TAG_SHIFT)
#define HEAP_SIZE_MASK (~HEAP_TAG_MASK & ~(uint64_t)(HEAP_UNIT - 1))

/* In the file. */
struct heap {
    uint64_t tag; /* the upper bits of every head */
    uint64_t root;
    uint64_t end; /* where the stopper is */
    uint64_t summary;
    uint64_t bits[HEAP_WORDS];
    uint64_t heads[HEAP_CLASSES];
};

/* In the file. Of a used block only the head is there. */
struct heap_block {
    uint64_t head;
    uint64_t next;
    uint64_t previous; /* 0: the first of its list */
};

enum { HEAP_FIRST = ((ARENA_HEAP + sizeof(struct heap) + 15) & ~(size_t)15) + HEAP_HEAD };

static inline struct heap *heap_of(const struct ps_arena *arena) {
    return (struct heap *)(void *)(arena->view.base + ARENA_HEAP);
}

static inline void *heap_at(const struct heap *heap, uint64_t offset) {
    return (char *)(uintptr_t)heap - ARENA_HEAP + offset;
}

static inline struct heap_block *heap_block_at(const struct heap *heap, uint64_t offset) {
    return heap_at(heap, offset);
}

static inline uint64_t *heap_back(const struct heap *heap, uint64_t offset) {
    return heap_at(heap, offset - sizeof(uint64_t));
}

static inline uint64_t heap_bytes(uint64_t head) { return head & HEAP_SIZE_MASK; }

/* Of a block for a request; the caller has checked for overflow. */
static inline uint64_t heap_bytes_for(size_t bytes) {
    uint64_t size = (bytes + HEAP_HEAD + HEAP_UNIT - 1) & ~(uint64_t)(HEAP_UNIT - 1);
    return size < HEAP_MIN ? HEAP_MIN : size;
}

/* heap.c */
size_t ps_arena_class_of(uint64_t size);

#endif
