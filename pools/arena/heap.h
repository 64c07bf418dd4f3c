/* SPDX-License-Identifier: MIT */
/*
 * The layout of the heap in an arena: its record, then blocks side by side, then a stopper, the
 * head of a used block of size 0. All places are offsets from the arena's start. Callers: heap.c,
 * check.c.
 *
 *   no two free blocks are side by side
 *   the last word of a free block is its own offset, for the block behind it
 *   bit c of the index is set <=> heads[c] != 0; heads and index are those of common/fit.h
 */
#ifndef PS_ARENA_HEAP_H
#define PS_ARENA_HEAP_H

#include "pools/arena/arena.h"
#include "pools/common/fit.h"

#define HEAP_LARGEST ((uint64_t)1 << PS_FIT_LARGEST_SHIFT)

/* In the file. */
struct heap {
    uint64_t tag; /* the upper bits of every head */
    uint64_t root;
    uint64_t end; /* where the stopper is */
    struct ps_fit_index index;
    uint64_t heads[PS_FIT_CLASSES];
};
_Static_assert(sizeof(struct heap) == 10176, "the file's layout");

/* A block in the file. A used block has only its head. */
struct heap_block {
    uint64_t head;
    uint64_t next;
    uint64_t previous; /* 0: the first of its list */
};

enum { HEAP_FIRST = ((ARENA_HEAP + sizeof(struct heap) + 15) & ~(size_t)15) + PS_FIT_HEAD };

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

#endif
