/* SPDX-License-Identifier: MIT */
/*
 * Shared declarations of this folder: chunks, the kinds of pool, and the three places of a chunk:
 * current (never used: [bump, end)), in the list of chunks with room, or neither (full). pool.c
 * calls the kinds; they call room.c, table.c and pools/common. No locks: one thread at a time, as
 * the header says.
 */
#ifndef PS_POOL_POOL_H
#define PS_POOL_POOL_H

#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/common/registry.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"

#include <poolshim/pool.h>

enum ps_pool_kind {
    PS_POOL_LIST,    /* usual: a list of free objects */
    PS_POOL_MAP,     /* ordered: a bit per object */
    PS_POOL_TINY,    /* pages of objects below 8 bytes */
    PS_POOL_CHECKED, /* PS_DEBUG=check: as ordered, whatever the options say */
    PS_POOL_HEAP,    /* PS_DEBUG=malloc: each object a malloc block; has no chunks */
};

#define PS_POOL_CHUNK_ALIGN ((size_t)64)

/*
 * The head of a chunk, or of a page of a chunk of tiny objects.
 *
 *   live + free_count + its objects on pool->free == carved <= capacity
 *   carved of the current chunk is that of the time when it became current
 *   a chunk with room (free_count != 0 || carved < capacity) is in the list or current; a full one
 *   may still be in the list
 */
struct ps_pool_chunk {
    struct ps_pool_chunk *next;      /* of the pool's chunks */
    struct ps_pool_chunk *room_next; /* of chunks with room, older ones rather in front */
    struct ps_pool_chunk *room_previous;
    char *nodes;        /* the first object */
    size_t bytes;       /* of the whole chunk; of a page that does not begin a chunk: 0 */
    size_t capacity;    /* objects */
    size_t carved;      /* objects that were allocated at least once */
    size_t free_count;  /* of these, free and not on pool->free. Usual pools: 0 */
    size_t found_count; /* usual pools: of these, free, as trim or stats counted last; while runs.c
                           merges: where its bits begin */
    size_t number;      /* counts up: the older, the lower */
    bool is_in_room;
};

static inline bool ps_pool_is_checked(const struct ps_pool *pool) {
    return pool->kind == PS_POOL_CHECKED;
}

static inline struct ps_chunks *ps_pool_growth(struct ps_pool *pool) {
    _Static_assert(sizeof(struct ps_chunks) <= sizeof pool->growth, "struct ps_chunks has grown");
    return (struct ps_chunks *)(void *)pool->growth;
}

static inline bool ps_pool_has_room(const struct ps_pool_chunk *chunk) {
    return chunk->free_count != 0 || chunk->carved < chunk->capacity;
}

/* Which object lies at an offset; exact for offsets and strides below 2^31, beyond which it
 * divides, which takes four times as long. */
static inline size_t ps_pool_index(const struct ps_pool *pool, size_t offset) {
    if (PS_UNLIKELY(pool->reciprocal == 0 || offset >> 31 != 0)) {
        return offset / pool->stride;
    }
    return (size_t)(((unsigned __int128)pool->reciprocal * (2 * offset)) >> 64);
}

/* room.c */
void ps_pool_room_add(struct ps_pool *pool, struct ps_pool_chunk *chunk);
void ps_pool_room_remove(struct ps_pool *pool, struct ps_pool_chunk *chunk);
/* No chunk is current any more: its account is settled, and if it has room it is in the list. */
void ps_pool_settle_current(struct ps_pool *pool);
static inline void ps_pool_settle(struct ps_pool *pool) {
    if (pool->current != NULL) {
        ps_pool_settle_current(pool);
    }
}
/* Makes a chunk current, from no current one. False: nothing can be carved from it. */
bool ps_pool_expose(struct ps_pool *pool, struct ps_pool_chunk *chunk);
/* Enters a new chunk into the pool; its kind has filled in nodes and capacity. */
void ps_pool_enter_chunk(struct ps_pool *pool, struct ps_pool_chunk *chunk, size_t bytes);

/* table.c: the chunk of an address; NULL: none. */
struct ps_pool_chunk *ps_pool_find_slow(struct ps_pool *pool, uintptr_t address);
void ps_pool_table_add(struct ps_pool *pool, const struct ps_pool_chunk *chunk);
void ps_pool_table_rebuild(struct ps_pool *pool);
void ps_pool_table_drop(struct ps_pool *pool);

static inline bool ps_pool_holds(const struct ps_pool_chunk *chunk, uintptr_t address) {
    return address - (uintptr_t)chunk < chunk->bytes;
}

static inline struct ps_pool_chunk *ps_pool_find(struct ps_pool *pool, const void *address) {
    struct ps_pool_chunk *recent = pool->recent;
    if (PS_LIKELY(recent != NULL && ps_pool_holds(recent, (uintptr_t)address))) {
        return recent;
    }
    return ps_pool_find_slow(pool, (uintptr_t)address);
}

/* table.c: zeroed memory of the pool's source for tables beside the chunks, to be returned
 * by ps_chunk_give. NULL: the pool works without it, so the oom handler is not called and errno is
 * preserved.
 */
void *ps_pool_take_aside(struct ps_pool *pool, size_t bytes);

/* runs.c, for usual pools: free arrays. Counts are above 1. */
void ps_pool_runs_add(struct ps_pool *pool, void *array, size_t count);
/* NULL: there is none so long. */
void *ps_pool_runs_take(struct ps_pool *pool, size_t count);
/* One object; others of the same array become single free ones. NULL: there is no array. */
void *ps_pool_runs_take_one(struct ps_pool *pool);
/* So many objects have been added to the pool. */
void ps_pool_runs_note_growth(struct ps_pool *pool, size_t count);
/* Makes free neighbours one array each; afterwards no chunk is current. False: not done, since it
 * would not pay yet (is_urgent: since nothing was freed), or no memory. O(objects / 64 + free). */
bool ps_pool_runs_merge(struct ps_pool *pool, bool is_urgent);
/* Calls is_kept for all and forgets those for which it says no. */
void ps_pool_runs_each(struct ps_pool *pool,
                       bool (*is_kept)(struct ps_pool *pool, void *array, size_t count));
/* Forgets all. */
void ps_pool_runs_drop(struct ps_pool *pool);

struct ps_pool_sum {
    size_t capacity;
    size_t carved;
    size_t free_count;
};

/* The actions of a kind; see list.c, map.c, tiny.c. */
struct ps_pool_actions {
    /* The length of a chunk for `count` objects; 0: it overflows. */
    size_t (*bytes_for)(const struct ps_pool *pool, size_t count);
    /* Makes a chunk, as new, of this memory. */
    void (*build)(struct ps_pool *pool, void *memory, size_t bytes);
    /* From what there is; NULL: nothing. The array's count is above 1. */
    void *(*alloc)(struct ps_pool *pool);
    void *(*alloc_n)(struct ps_pool *pool, size_t count);
    void (*free_n)(struct ps_pool *pool, void *array, size_t count);
    /* Makes `sum` right for every chunk. No chunk is current. */
    void (*count)(struct ps_pool *pool);
    void (*sum)(const struct ps_pool *pool, const struct ps_pool_chunk *chunk,
                struct ps_pool_sum *sum);
    /* After count: takes what drained chunks have off all lists, but theirs of chunks. */
    void (*forget_drained)(struct ps_pool *pool);
};

/* life.c: ps_pool_init, but the pool is a part of another one and is never listed by itself. */
bool ps_pool_init_part(struct ps_pool *pool, size_t size, size_t align,
                       const struct ps_pool_options *options);

/* life.c: ps_pool_trim_to; *keep_bytes: less what it has retained. */
size_t ps_pool_trim_empty(struct ps_pool *pool, size_t *keep_bytes);

/* pool.c: of any kind but PS_POOL_HEAP, which has none. */
const struct ps_pool_actions *ps_pool_actions_of(const struct ps_pool *pool);
/* A chunk for `count` more objects. False: ENOMEM. */
bool ps_pool_grow(struct ps_pool *pool, size_t count);
/* One object, or an array, from what there is or from a new chunk. NULL: ENOMEM. */
void *ps_pool_kept_or_grown(struct ps_pool *pool, size_t count);

extern const struct ps_pool_actions ps_pool_list_actions;
extern const struct ps_pool_actions ps_pool_map_actions;
extern const struct ps_pool_actions ps_pool_tiny_actions;
extern const struct ps_pool_actions ps_pool_checked_actions;

/* The hot ones among the slow paths are called directly. */
void *ps_pool_map_alloc(struct ps_pool *pool);
/* Grows the pool, unlike its action. */
void *ps_pool_tiny_alloc(struct ps_pool *pool);
void ps_pool_map_free(struct ps_pool *pool, void *object);
void ps_pool_tiny_free(struct ps_pool *pool, void *object);
bool ps_pool_tiny_owns(const struct ps_pool *pool, const void *address);
void ps_pool_map_each(struct ps_pool *pool, void (*visit)(void *object, void *context),
                      void *context);

/* Actions that the checked kind shares with the ordered one; see struct ps_pool_actions. */
size_t ps_pool_map_bytes_for(const struct ps_pool *pool, size_t count);
void ps_pool_map_build(struct ps_pool *pool, void *memory, size_t bytes);
void ps_pool_map_flush(struct ps_pool *pool);
void ps_pool_map_sum(const struct ps_pool *pool, const struct ps_pool_chunk *chunk,
                     struct ps_pool_sum *sum);
void ps_pool_map_forget_drained(struct ps_pool *pool);

/* heap.c: PS_DEBUG=malloc. */
void *ps_pool_heap_alloc(struct ps_pool *pool, size_t count);
void ps_pool_heap_free(struct ps_pool *pool, void *object, size_t count);
void ps_pool_heap_free_all(struct ps_pool *pool);
bool ps_pool_heap_owns(const struct ps_pool *pool, const void *address);
void ps_pool_heap_each(struct ps_pool *pool, void (*visit)(void *object, void *context),
                       void *context);

#endif
