/* SPDX-License-Identifier: MIT */
/*
 * A region's private state, and the steps that its files share. A region belongs to one thread at a
 * time: no locks, no atomics. Callers: the files of this folder.
 *
 *   hot.at is the current chunk's `at`; that of struct ps_region_chunk is right only between
 *   ps_region_leave and ps_region_enter.
 *   start <= floor <= at <= end in every chunk; end is a multiple of 16.
 *   kept_bytes == sum of the lengths of the chunks on `kept`
 *
 * A watched region (PS_DEBUG, builds with checks) shows the inline functions no room and no newest
 * block, so that all work comes out of line, where there are checks and marks for ASan. Unless its
 * blocks are malloc's, they have canaries, and chunks no gaps: canary.c.
 */
#ifndef PS_REGION_REGION_H
#define PS_REGION_REGION_H

#include "pools/common/canary.h"
#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/common/registry.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <poolshim/region.h>

/* The head of a chunk; that of the first chunk is inside the region's record. */
struct ps_region_chunk {
    struct ps_region_chunk *prev; /* older chunk in use; next on the list of retained ones */
    size_t bytes;                 /* as taken from the source; 0: the caller's buffer */
    char *start;                  /* the first address for a block */
    char *at;
    char *floor;
    char *end;
};

/* The head of a large block. */
struct ps_region_large {
    struct ps_region_large *next; /* older */
    struct ps_region_large **link;
    char *base;        /* of the chunk */
    size_t bytes;      /* of the chunk */
    size_t room_bytes; /* from the block to the end of the chunk */
    uintptr_t seal;    /* says that this is one, see large.c */
};

struct ps_region_cleanup {
    struct ps_region_cleanup *next;
    struct ps_region_cleanup **link;
    ps_region_function *function;
    void *argument;
};

struct ps_region_data {
    struct ps_region_data *next;
    const char *key;
    void *value;
    ps_region_function *destructor;
};

struct ps_region_state {
    struct ps_region hot;
    struct ps_region_chunk *chunk; /* the current one */
    struct ps_region_chunk first;
    struct ps_region_large *large; /* newest first */
    struct ps_region_chunk *kept;  /* empty ones */
    size_t kept_bytes;
    size_t retain_bytes;
    size_t peak_bytes;
    struct ps_chunks chunks;
    struct ps_region_cleanup *cleanups;       /* newest first; this and all below start as 0 */
    struct ps_region_cleanup *early_cleanups; /* newest first */
    struct ps_region_cleanup *free_cleanups;  /* records for reuse */
    struct ps_region_data *data;
    struct ps_region_state *parent;
    struct ps_region_state *child; /* newest first */
    struct ps_region_state *next_sibling;
    struct ps_region_state **sibling_link;
    const void *owner; /* ps_region_thread of the only user; for watched regions */
    bool is_watched;
    bool is_malloc; /* every block is a large one, from malloc */
    bool is_ending; /* its callbacks run */
};

enum {
    PS_REGION_FIRST_BYTES = 4096,
    PS_REGION_MAX_BYTES = 1 << 20,
    PS_REGION_RETAIN_BYTES = 1 << 20,
    PS_REGION_LENGTH_MIN = 1024,   /* of a chunk, whatever the options say */
    PS_REGION_LENGTH_MAX = 1 << 30 /* of a chunk, since gaps store 32-bit offsets */
};

_Static_assert(sizeof(struct ps_region_chunk) == 48, "large.c reads 48 bytes before a block");
_Static_assert(sizeof(struct ps_region_large) == 48, "a block after it is aligned to 16");
_Static_assert(sizeof(struct ps_region_state) + 2 * PS_ALIGN_DEFAULT <= PS_REGION_INIT_BYTES,
               "the manual's figure");

static inline struct ps_region_state *ps_region_state(struct ps_region *region) {
    return (struct ps_region_state *)region;
}

static inline const struct ps_region_state *ps_region_const_state(const struct ps_region *region) {
    return (const struct ps_region_state *)region;
}

/* From the public words to the chunk, before anything but the fast paths works on it. */
static inline void ps_region_leave(struct ps_region_state *region) {
    region->chunk->at = region->hot.at;
}

/* And back. */
static inline void ps_region_enter(struct ps_region_state *region) {
    struct ps_region_chunk *chunk = region->chunk;
    region->hot.at = chunk->at;
    region->hot.end = region->is_watched ? chunk->at : chunk->end;
    region->hot.floor = region->is_watched ? (char *)UINTPTR_MAX : chunk->floor;
}

static inline bool ps_region_has_canaries(const struct ps_region_state *region) {
    return region->is_watched && !region->is_malloc;
}

static inline struct ps_canary_pool ps_region_canary_pool(const struct ps_region_state *region) {
    return (struct ps_canary_pool){region->chunks.family, region->chunks.name};
}

/* region.c: nothing unless the region is watched; aborts when another thread uses it. */
void ps_region_check_thread(const struct ps_region_state *region);
/* region.c: for watched regions; aborts when the block is none of the region's. */
void ps_region_check_block(const struct ps_region_state *region, const void *block);

/* region.c: raises lengths too short for a region's record, and lowers lengths beyond the reach of
 * a gap's offset. */
void ps_region_clamp_lengths(struct ps_chunks *chunks);

/* chunks.c */
void *ps_region_place(struct ps_region_chunk *chunk, size_t bytes, size_t align);
void ps_region_lower(struct ps_region_chunk *chunk, char *block);
bool ps_region_add_chunk(struct ps_region_state *region, size_t least);
void ps_region_retire_empty(struct ps_region_state *region);
void ps_region_rewind(struct ps_region_state *region);
void ps_region_give_chunk(struct ps_region_state *region, struct ps_region_chunk *chunk);
void ps_region_note_peak(struct ps_region_state *region);

/* True when a chunk of so many bytes, header and all, would be a large block's. */
static inline bool ps_region_is_too_long(const struct ps_region_state *region, size_t bytes) {
    return bytes > region->chunks.next_bytes / 2;
}

/* The end of the allocated part of a chunk. */
static inline char *ps_region_top(const struct ps_region_state *region,
                                  const struct ps_region_chunk *chunk) {
    return chunk == region->chunk ? region->hot.at : chunk->at;
}

/* large.c */
/* True when the program may free it in any order. With PS_DEBUG=malloc all blocks are on the list
 * of large ones, and their length shows which would be large without. */
bool ps_region_is_large(const struct ps_region_state *region, const struct ps_region_large *large);
void *ps_region_alloc_large(struct ps_region_state *region, size_t bytes, size_t align);
struct ps_region_large *ps_region_large_of(const struct ps_region_state *region, void *block);
void ps_region_drop_large(struct ps_region_state *region, struct ps_region_large *large);

/* canary.c: of regions whose blocks have canaries. */
/* Aborts where a canary has changed; nothing in other regions. */
void ps_region_verify(const struct ps_region_state *region);
/* A block of this size in a chunk of its own. */
void *ps_region_alloc_large_watched(struct ps_region_state *region, size_t bytes, size_t align);
/* Aborts when no block begins here, or one of another size, or a canary of it has changed. */
void ps_region_check_size(const struct ps_region_state *region, const void *block, size_t bytes);
/* For a block of this chunk that is not the newest: aborts if it would be taken for it without
 * canaries. */
void ps_region_check_newest(const struct ps_region_state *region,
                            const struct ps_region_chunk *chunk, void *block, size_t bytes,
                            size_t align);
/* Fills memory that may not be used any more. */
void ps_region_mark_freed(char *memory, size_t bytes);
/* chunk: whose newest block it is, or NULL. NULL: the block must move. */
void *ps_region_resize_watched(struct ps_region_state *region, struct ps_region_chunk *chunk,
                               char *block, size_t bytes);

/* cleanup.c */
void ps_region_run_all(struct ps_region_state *region, struct ps_region_cleanup **list);
void ps_region_drop_data(struct ps_region_state *region);

/* One branch: destroying asks, and there are none most of the time. */
static inline bool ps_region_has_callbacks(const struct ps_region_state *region) {
    return ((uintptr_t)region->early_cleanups | (uintptr_t)region->child |
            (uintptr_t)region->cleanups | (uintptr_t)region->data) != 0;
}

/* tree.c: runs all callbacks and ends all descendants. */
void ps_region_settle(struct ps_region_state *region);
void ps_region_link(struct ps_region_state *region, struct ps_region_state *parent);
void ps_region_unlink(struct ps_region_state *region);

/* region.c: the memory of a settled region. */
void ps_region_release(struct ps_region_state *region);

#endif
