/* SPDX-License-Identifier: MIT */
/*
 * The inside of a TLSF pool: blocks and the lists of free blocks. Owner: the files of this folder.
 * No locks: one thread at a time per pool.
 *
 * A range is a record, then blocks side by side, then a stopper: the head of a used block of size
 * 0. A block is its head and the payload; the last word of a free block's payload points back to
 * its head, for the block after it.
 *
 *     |head|payload ........|head|next|slot|........|back|head|payload ...|stopper|
 *      used block            free block               used, PREVIOUS_FREE set
 *
 *   no two free blocks are side by side
 *   bit c of the index is set <=> heads[c] != NULL; heads and index are those of common/fit.h
 *   *block->slot == block, for every free block
 *   the record and all ranges lie in [low, low + span + 8): the last place of a head
 *
 * The program may overwrite free blocks and heads. So a pointer or a size from there is checked
 * against those bounds before it is followed, and its target must agree with its place: else
 * ps_tlsf_damaged. A pointer into the gap between two ranges is not detected.
 */
#ifndef PS_TLSF_TLSF_H
#define PS_TLSF_TLSF_H

#include "pools/common/chunk.h"
#include "pools/common/fit.h"
#include "pools/tlsf/poison.h"

#include <poolshim/tlsf.h>

struct block {
    size_t head;
    /* free blocks only: */
    struct block *next;
    struct block **slot; /* what points here: a list's head or the `next` of a block */
};

struct range {
    struct range *next;
    size_t bytes;       /* of the memory, from this record on */
    size_t chunk_bytes; /* of the source's chunk; 0: the caller's memory */
    void *memory;       /* as it was given */
};

/* A block of PS_DEBUG=malloc: `head` is where a pool's block has it. */
struct lone_block {
    struct lone_block *next;
    struct lone_block **slot;
    size_t bytes;
    size_t lead_bytes; /* from the chunk's start to the payload */
    size_t unused;
    size_t head;
};

struct ps_tlsf {
    size_t limit_bytes; /* requests above take the slow way; 0 when all do */
    size_t tag;         /* the upper bits of every head */
    size_t expected;    /* the tag, or what no head has when all frees take the slow way */
    uintptr_t low;
    size_t span;
    struct ps_fit_index index;
    struct range *ranges; /* the first one last */
    struct lone_block *lone_blocks;
    struct ps_chunks chunks;
    size_t largest_bytes;   /* no block is larger */
    size_t class_count;     /* of heads */
    size_t own_chunk_bytes; /* the chunk that begins with this record; 0: the caller's memory */
    bool can_grow;
    bool is_malloc; /* PS_DEBUG=malloc */
    bool is_check;  /* PS_DEBUG=check */
    uint32_t x_is_busy;
    struct block *heads[];
};

/* Two stores: joined to one of 16 bytes, as gcc would, they take two more instructions. */
static inline void block_link(struct block *block, struct block *next, struct block **slot) {
    block->next = next;
    *(struct block * *volatile *)&block->slot = slot;
}

static inline void *block_payload(struct block *block) { return (char *)block + PS_FIT_HEAD; }

static inline struct block *block_of(const void *payload) {
    return (struct block *)((uintptr_t)payload - PS_FIT_HEAD);
}

static inline struct block *block_at(struct block *block, size_t bytes) {
    return (struct block *)((char *)block + bytes);
}

/* The pointer back to the free block before `block`. */
static inline struct block **block_back(struct block *block) { return (struct block **)block - 1; }

/* The first block of the range, and the stopper after the last. */
static inline struct block *range_first(const struct range *range) {
    uintptr_t payload = ps_round_up((uintptr_t)(range + 1) + PS_FIT_HEAD, PS_FIT_UNIT);
    return (struct block *)(payload - PS_FIT_HEAD);
}

static inline struct block *range_stopper(const struct range *range) {
    uintptr_t end = ps_round_down((uintptr_t)range + range->bytes, PS_FIT_UNIT);
    return (struct block *)(end - PS_FIT_HEAD);
}

/* True when the range is one free block. */
static inline bool range_is_free(const struct range *range) {
    struct block *first = range_first(range);
    return (first->head & PS_FIT_FREE) != 0 &&
           block_at(first, ps_fit_bytes(first->head)) == range_stopper(range);
}

/* Poisons freed memory without data of the pool, for the sanitizers. */
static inline void block_poison(struct block *block, size_t size) {
    tlsf_poison(block + 1, size - sizeof *block - sizeof(struct block *));
}

static inline void block_unpoison(struct block *block, size_t size) {
    tlsf_unpoison(block_payload(block), size - PS_FIT_HEAD);
}

/* True when a head may lie there. The alignment is not checked: an address that is not aligned
 * leads to no head that agrees, either. */
static inline bool tlsf_has_head(const struct ps_tlsf *tlsf, const void *block) {
    return (uintptr_t)block - tlsf->low <= tlsf->span;
}

/* The same of a free block, which is never last. */
static inline bool tlsf_has_links(const struct ps_tlsf *tlsf, const void *block) {
    return (uintptr_t)block - tlsf->low <= tlsf->span - sizeof(struct block);
}

/* slow.c: "poolshim: <what> <payload of the block> in <pool>". */
PS_NORETURN PS_COLD void ps_tlsf_damaged(const struct ps_tlsf *tlsf, const char *what,
                                         struct block *block);

/* The head that follows the block. Ends the program unless it is valid and says that the block is
 * used. */
static inline size_t tlsf_head_behind(const struct ps_tlsf *tlsf, struct block *block,
                                      struct block *behind) {
    size_t head;
    if (PS_UNLIKELY((char *)behind - (char *)block < PS_FIT_MIN || !tlsf_has_head(tlsf, behind) ||
                    (((head = behind->head) ^ tlsf->tag) &
                     (PS_FIT_TAG_MASK | PS_FIT_PREVIOUS_FREE)) != 0)) {
        ps_tlsf_damaged(tlsf, "overwritten block after", block);
    }
    return head;
}

/* tlsf.c: puts a block on its list. Its neighbours are used; their heads are brought in line. */
void ps_tlsf_list(struct ps_tlsf *tlsf, struct block *block, size_t size);

/* tlsf.c: takes a free block off its list. */
void ps_tlsf_unlist(struct ps_tlsf *tlsf, struct block *block);

/* tlsf.c: without the checks of the slow way. NULL: no block fits. */
void *ps_tlsf_take(struct ps_tlsf *tlsf, size_t size, size_t align);
void ps_tlsf_release(struct ps_tlsf *tlsf, struct block *block, size_t head);
bool ps_tlsf_resize(struct ps_tlsf *tlsf, struct block *block, size_t size);

/* ranges.c: takes a chunk from the source in which a block of `size` fits, at any place aligned as
 * align says. */
bool ps_tlsf_grow(struct ps_tlsf *tlsf, size_t size, size_t align);

/* slow.c */
/* Ends the program unless the pointer is that of a used block, as far as its head shows. */
void ps_tlsf_check_used(const struct ps_tlsf *tlsf, const void *payload);
void *ps_tlsf_alloc_slow(struct ps_tlsf *tlsf, size_t bytes, size_t align);
void ps_tlsf_free_slow(struct ps_tlsf *tlsf, void *payload);
void *ps_tlsf_realloc_slow(struct ps_tlsf *tlsf, void *payload, size_t bytes);
void ps_tlsf_drop_lone_blocks(struct ps_tlsf *tlsf);

#endif
