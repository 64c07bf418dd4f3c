/* SPDX-License-Identifier: MIT */
/*
 * A heap in memory that is mapped elsewhere at another address: TLSF, as in poolshim/tlsf.h, over
 * offsets, in one range that grows at its end. Callers: arena/, shared/. No locks: the caller's.
 *
 * The record, then blocks side by side, then a stopper, the head of a used block of size 0. All
 * places are offsets from the start of the memory.
 *
 *   no two free blocks are side by side
 *   the last word of a free block is its own offset, for the next block
 *   bit c of the index is set <=> heads[c] != 0; heads and index are those of common/fit.h
 *
 * A heap of several processes has a log: each word is noted there before it is changed, so that a
 * section that was cut short by the end of its process can be rolled back by another one. Program
 * order is enough, as in engine/base/undo.h: what a thread has stored before it was killed is a
 * beginning of what it stores in program order, and the lock by which its end is noticed makes all
 * of it visible.
 */
#ifndef PS_COMMON_OFFSET_HEAP_H
#define PS_COMMON_OFFSET_HEAP_H

#include "pools/common/fit.h"
#include "pools/engine/base/atomic.h"

enum {
    PS_OFFSET_LOG_ROOM = 62,  /* words; a section notes 40 at the most */
    PS_OFFSET_NOTES_MAX = 10, /* of them at a time */
};

#define PS_OFFSET_HEAP_LARGEST ((uint64_t)1 << PS_FIT_LARGEST_SHIFT)

/* In the memory. */
struct ps_offset_heap {
    uint64_t tag; /* the upper bits of every head */
    uint64_t root;
    uint64_t end; /* where the stopper is */
    struct ps_fit_index index;
    uint64_t heads[PS_FIT_CLASSES];
};
_Static_assert(sizeof(struct ps_offset_heap) == 10176, "the layout of files");

/* A block in the memory. A used block has only its head. */
struct ps_offset_block {
    uint64_t head;
    uint64_t next;
    uint64_t previous; /* 0: the first of its list */
};

/* A word that was noted. */
struct ps_offset_entry {
    uint64_t place; /* its offset */
    uint64_t before;
};

/* In the memory. Entries [0, count) are noted, in this order. */
struct ps_offset_log {
    uint64_t count;
    uint64_t unused;
    struct ps_offset_entry entries[PS_OFFSET_LOG_ROOM];
};

/* How the calling process has it. */
struct ps_offset_memory {
    char *base;
    struct ps_offset_heap *heap;
    struct ps_offset_log *log; /* NULL: changes are not noted */
};

static inline void *ps_offset_at(const struct ps_offset_memory *memory, uint64_t offset) {
    return memory->base + offset;
}

static inline struct ps_offset_block *ps_offset_block(const struct ps_offset_memory *memory,
                                                      uint64_t offset) {
    return ps_offset_at(memory, offset);
}

/* The last word of the block before. */
static inline uint64_t *ps_offset_back(const struct ps_offset_memory *memory, uint64_t offset) {
    return ps_offset_at(memory, offset - sizeof(uint64_t));
}

/* The first block's offset. */
static inline uint64_t ps_offset_first(const struct ps_offset_memory *memory) {
    uint64_t record_end = (uint64_t)((char *)(memory->heap + 1) - memory->base);
    return ps_round_up(record_end, PS_FIT_UNIT) + PS_FIT_HEAD;
}

/* The length of the memory that the heap uses. */
static inline uint64_t ps_offset_bytes(const struct ps_offset_memory *memory) {
    return memory->heap->end + PS_FIT_HEAD;
}

/*
 * Notes words that are changed after it, if there is a log:
 *
 *     if (memory->log != NULL) {
 *         struct ps_offset_entry *end = ps_offset_notes_begin(memory);
 *         end = ps_offset_note(memory, end, &word);
 *         ps_offset_notes_end(memory, end);
 *     }
 *     word = value;
 *
 * PS_OFFSET_NOTES_MAX words at the most. Words within a free block, between its links and its last
 * word, need no note: a section that is rolled back leaves them as they are.
 */
static inline struct ps_offset_entry *ps_offset_notes_begin(const struct ps_offset_memory *memory) {
    struct ps_offset_log *log = memory->log;
    if (PS_UNLIKELY(log->count > PS_OFFSET_LOG_ROOM - PS_OFFSET_NOTES_MAX)) {
        ps_check_failed("poolshim: check failed: the log of a shared heap is full\n");
    }
    return &log->entries[log->count];
}

static inline struct ps_offset_entry *ps_offset_note(const struct ps_offset_memory *memory,
                                                     struct ps_offset_entry *end,
                                                     const uint64_t *word) {
    end->place = (uint64_t)((const char *)word - memory->base);
    end->before = *word;
    return end + 1;
}

static inline void ps_offset_notes_end(const struct ps_offset_memory *memory,
                                       const struct ps_offset_entry *end) {
    ps_fence_program_order(); /* the entries are written before `count` covers them */
    memory->log->count = (uint64_t)(end - memory->log->entries);
    ps_fence_program_order(); /* and `count` before the changes */
}

/* Changes a word of the memory. */
static inline void ps_offset_store(const struct ps_offset_memory *memory, uint64_t *word,
                                   uint64_t value) {
    if (memory->log != NULL) {
        struct ps_offset_entry *end = ps_offset_notes_begin(memory);
        ps_offset_notes_end(memory, ps_offset_note(memory, end, word));
    }
    *word = value;
}

/* An empty heap of `bytes` in memory whose record is zeroed. No section, nothing is noted. */
void ps_offset_heap_format(const struct ps_offset_memory *memory, uint64_t tag, uint64_t bytes);

/* The memory has become longer: `bytes` in all. */
void ps_offset_heap_extend(const struct ps_offset_memory *memory, uint64_t bytes);

/* A block of `size`, as of ps_fit_bytes_for, whose payload is a multiple of align, 16 to 4096. The
 * offset of its head; 0: none fits. O(1). */
uint64_t ps_offset_heap_take(const struct ps_offset_memory *memory, uint64_t size, uint64_t align);

/* Frees a used block, by the offset of its head. O(1). */
void ps_offset_heap_release(const struct ps_offset_memory *memory, uint64_t offset);

/* Makes a used block as long as `size`, in place. False: it does not fit there. O(1). */
bool ps_offset_heap_resize(const struct ps_offset_memory *memory, uint64_t offset, uint64_t size);

/* The offset of a used block's head, from its payload. Ends the program when it is none; name: of
 * the pool, what: "not a block of this arena:" or the like. */
uint64_t ps_offset_heap_used(const struct ps_offset_memory *memory, const void *payload,
                             const char *what, const char *name);

struct ps_offset_counts {
    uint64_t used_count;
    uint64_t used_bytes; /* of payloads */
    uint64_t free_count;
    uint64_t free_bytes;
    uint64_t largest_free_bytes;
};
/* Adds up all blocks. O(blocks). */
void ps_offset_heap_count(const struct ps_offset_memory *memory, struct ps_offset_counts *counts);

/* Heads, lists and bits: NULL when they agree, else a description of the error. Checks that each
 * offset is within the memory, of `bytes`, before it uses it. O(blocks). */
const char *ps_offset_heap_check(const struct ps_offset_memory *memory, uint64_t bytes);

#endif
