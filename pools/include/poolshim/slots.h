/* SPDX-License-Identifier: MIT */
/*
 * slots.h - objects of one size, reached by handles; stale handles are recognised: a slot map.
 *
 * A handle is a number: the position of an object, and the generation of that position. A remove
 * ends the generation, so each handle to the removed object is stale from then on: ps_slots_get
 * returns NULL for it, in every build, also after the memory was reused or returned. Use it for
 * objects that refer to each other and are removed at any time: entities of a game, connections,
 * timers, nodes of a graph, and for references that leave the process.
 *
 *     struct ps_slots slots;
 *     ps_slots_init(&slots, sizeof(struct entity), 0, NULL);
 *     struct entity *entity;
 *     uint64_t handle = ps_slots_insert(&slots, (void **)&entity);   // 0: no memory
 *     entity = ps_slots_get(&slots, handle);                         // NULL: it was removed
 *     ps_slots_remove(&slots, handle);                               // false: it was removed
 *     ps_slots_destroy(&slots);
 *
 * Objects do not move from insert to remove; the map grows by chunks of one length and moves
 * nothing. 0 is never a handle. In C++: slots.hpp.
 *
 * Iteration visits the live objects in order of position. Positions are sparse: a removed object
 * leaves a hole, which the next insert fills. Dense storage, which moves the last object into the
 * hole, would iterate over fewer cache lines, but pointers would end at each remove; holes cost a
 * bit each instead, and 64 of them are skipped at a time.
 *
 * Handles have 64 bits, 32 of them for the position and 31 for the generation, or, with
 * options.handle_bits = 32, 20 and 12, or as options.position_bits divides them. No generation
 * comes twice: a position whose last generation has ended is used up and is not given out again.
 * So a position serves 2^31 - 1 objects, or 4095 with handles of 32 bits, and when all positions
 * are used up inserts fail. ps_slots_trim_to returns the memory of chunks that are used up.
 *
 * Threads: one at a time per map; gets and iterations by several threads at once are permitted
 * while no thread changes it. Objects are uninitialised, ps_slots_destroy frees them.
 *
 * Cost: insert, get and remove are 15 to 25 inlined instructions, and one in some hundred calls the
 * source. 8 bytes and a bit per object, the alignment's rest included. Memory is touched when it is
 * first allocated.
 *
 * PS_DEBUG=check: removed objects are filled and poisoned, and two threads that change a map at
 * once are found. PS_DEBUG=malloc: each object is a malloc block.
 *
 * Slot maps with generations are old in games: S. Migdalskiy, "Performance", Game Programming Gems
 * 4.2 (2004) has them as handles with magic numbers; removal without moves follows M. Bentley's
 * plf::colony, with a bit per object for its skip lists.
 */
#ifndef POOLSHIM_SLOTS_H
#define POOLSHIM_SLOTS_H

#include <poolshim/source.h>

PS_BEGIN_DECLS

/* The largest alignment of objects. */
#define PS_SLOTS_ALIGN_MAX PS_CAST(size_t, 4096)

/* In the stamp of a position that is free; no handle has it. The library's own. */
#define PS_SLOTS_FREE (PS_CAST(uint64_t, 1) << 63)

struct ps_slots_options {
    struct ps_chunk_options chunks; /* max_bytes: the length of every chunk, at most, 64 KiB if 0;
                                       no less than 8 objects. first_bytes is not used */
    uint32_t handle_bits;           /* 64, or 32; 0: 64 */
    uint32_t position_bits;         /* of a handle: 4 to 32, or to handle_bits - 2; 0: 32, or 20 */
    size_t max_items;               /* no more than that at a time; 0: no limit */
};

/* All fields but live_count, which may be read, are the library's own. */
struct ps_slots {
    char **directory; /* chunk of position >> shift; NULL: trim has returned it */
    size_t reach;     /* positions below have a stamp. 0 in debug modes: calls are not inlined */
    uint64_t position_mask; /* of a handle; as a position: none */
    uint64_t free;          /* position of the newest free place, or position_mask */
    size_t stride;          /* bytes from one object to the next */
    size_t object_offset;   /* of the first one in its chunk; its stamp is 8 bytes before it */
    size_t bits_offset;     /* in a chunk: a bit per place, 1: live */
    size_t live_count;
    size_t live_max;
    uint64_t last_generation; /* handles from here on are the last of their position */
    size_t index_mask;        /* places of a chunk, less 1: a power of two */
    uint32_t shift;           /* its logarithm */
    uint32_t is_checked;
    uint32_t is_malloc;
    uint32_t x_is_busy;   /* checks: a change is under way */
    uint64_t kept;        /* `free` of debug modes */
    size_t touched;       /* `reach` of debug modes */
    size_t chunk_count;   /* entries of the directory in use */
    size_t absent_count;  /* of them, without memory */
    size_t absent_from;   /* no entry before it is without memory and has generations left */
    size_t used_up_count; /* positions that have memory and will not be given out again */
    size_t directory_bytes;
    size_t chunk_bytes;
    size_t size_bytes;
    size_t block_align;  /* of objects */
    uint64_t growth[16]; /* struct ps_chunks */
};

/* A walk over the live objects. The fields are the library's own. */
struct ps_slots_cursor {
    uint64_t rest; /* of 64 places, those that were live and are not visited yet */
    char *places;  /* the first of the 64 */
    size_t next;   /* the position after them */
};

/*
 * Makes *slots empty; takes no memory. size: bytes of an object, 0 counts as 1. align: power of two
 * up to PS_SLOTS_ALIGN_MAX; 0 is the largest power of two that divides size, at most 16, which is
 * enough for any C type of that size. options: NULL for the defaults; not retained. False and
 * EINVAL: an argument out of range; then *slots is not usable. O(1).
 */
PS_API bool ps_slots_init(struct ps_slots *slots, size_t size, size_t align,
                          const struct ps_slots_options *options) PS_NOEXCEPT;

/* Gives all memory back, that of live objects too. The map can then only be initialised again.
 * O(chunks). Preserves errno. */
PS_API void ps_slots_destroy(struct ps_slots *slots) PS_NOEXCEPT;

/* Moves the map *from to *to; its handles remain valid and its objects do not move. *to was not
 * initialised or is destroyed. *from is then empty, with the same options, and accepts handles of
 * *to as its own once it has objects again. O(1). */
PS_API void ps_slots_move(struct ps_slots *to, struct ps_slots *from) PS_NOEXCEPT;

/* Removes all objects: all handles become stale. Retains the memory. O(positions / 64 +
 * objects). */
PS_API void ps_slots_reset(struct ps_slots *slots) PS_NOEXCEPT;

/* The slow halves of the inline functions below. */
PS_API uint64_t ps_slots_insert_slow(struct ps_slots *slots, void **object);
PS_API void *ps_slots_get_slow(const struct ps_slots *slots, uint64_t handle) PS_NOEXCEPT;
PS_API bool ps_slots_remove_slow(struct ps_slots *slots, uint64_t handle) PS_NOEXCEPT;
PS_API void *ps_slots_next_slow(const struct ps_slots *slots,
                                struct ps_slots_cursor *cursor) PS_NOEXCEPT;
/* The next places with live objects, for ps::slots::each: that many from cursor->places on, which
 * are all live, or, 0, those of 64 that cursor->rest says. 0 and no rest: there are no more, or
 * this is a debug mode. */
PS_API size_t ps_slots_next_run(const struct ps_slots *slots,
                                struct ps_slots_cursor *cursor) PS_NOEXCEPT;

/* The library's own: the parts of a map that C++ knows when it compiles. */
struct ps_slots_shape {
    uint64_t position_mask;
    size_t stride;
    size_t object_offset;
};
static inline struct ps_slots_shape ps_slots_shape_of(const struct ps_slots *slots) {
    struct ps_slots_shape shape;
    shape.position_mask = slots->position_mask;
    shape.stride = slots->stride;
    shape.object_offset = slots->object_offset;
    return shape;
}

/* The library's own: a position in its chunk, the place of it, and the stamp of that. */
static inline size_t ps_slots_index(const struct ps_slots *slots, size_t position) {
    return position & slots->index_mask;
}
static inline char *ps_slots_place(char *chunk, size_t index, struct ps_slots_shape shape) {
    return chunk + shape.object_offset + index * shape.stride;
}
static inline uint64_t *ps_slots_stamp(void *place) { return (uint64_t *)place - 1; }
static inline bool ps_slots_is_live(void *place) {
    return (*ps_slots_stamp(place) & PS_SLOTS_FREE) == 0;
}

/* The library's own: sets or clears the bit of a place. */
static inline void ps_slots_flip(const struct ps_slots *slots, char *chunk, size_t index) {
    uint64_t *word = (uint64_t *)(void *)(chunk + slots->bits_offset) + (index >> 6);
    uint64_t bits = *word; /* in a register: one instruction then changes the bit */
    bits ^= (uint64_t)1 << (index & 63);
    *word = bits;
}

/* A place that was free before is first on the list. When that is empty, the next place follows
 * that never had an object: so the calls that build a map do not wait for stamps that others have
 * read. */
__attribute__((always_inline)) static inline uint64_t
ps_slots_insert_shaped(struct ps_slots *slots, void **object, struct ps_slots_shape shape) {
    size_t position = (size_t)slots->free;
    uint64_t handle;
    if (__builtin_expect(slots->live_count == slots->live_max, 0)) {
        return ps_slots_insert_slow(slots, object);
    }
    if (position != shape.position_mask) {
        char *chunk = slots->directory[position >> slots->shift];
        char *place = ps_slots_place(chunk, ps_slots_index(slots, position), shape);
        uint64_t stamp = *ps_slots_stamp(place);
        uint64_t next = stamp & shape.position_mask;
        slots->free = next;
        handle = (stamp ^ next ^ PS_SLOTS_FREE) | position;
    } else {
        position = slots->reach;
        if (__builtin_expect(
                ps_slots_index(slots, position) == 0 || position == shape.position_mask, 0)) {
            return ps_slots_insert_slow(slots, object); /* a chunk begins, or a debug mode */
        }
        slots->reach = position + 1;
        handle = (shape.position_mask + 1) | position;
    }
    char *chunk = slots->directory[position >> slots->shift];
    size_t index = ps_slots_index(slots, position);
    char *place = ps_slots_place(chunk, index, shape);
    ps_slots_flip(slots, chunk, index);
    slots->live_count++;
    *ps_slots_stamp(place) = handle;
    *object = place;
    if (handle == 0) { /* generations begin at 1: spares the caller a comparison */
        __builtin_unreachable();
    }
    return handle;
}

__attribute__((always_inline)) static inline void *
ps_slots_get_shaped(const struct ps_slots *slots, uint64_t handle, struct ps_slots_shape shape) {
    size_t position = (size_t)(handle & shape.position_mask);
    if (__builtin_expect(position >= slots->reach, 0)) {
        return ps_slots_get_slow(slots, handle);
    }
    char *chunk = slots->directory[position >> slots->shift];
    if (__builtin_expect(chunk == NULL, 0)) {
        return NULL;
    }
    char *place = ps_slots_place(chunk, ps_slots_index(slots, position), shape);
    return __builtin_expect(*ps_slots_stamp(place) == handle, 1) ? place : NULL;
}

__attribute__((always_inline)) static inline bool
ps_slots_remove_shaped(struct ps_slots *slots, uint64_t handle, struct ps_slots_shape shape) {
    size_t position = (size_t)(handle & shape.position_mask);
    if (__builtin_expect(position >= slots->reach || handle >= slots->last_generation, 0)) {
        return ps_slots_remove_slow(slots, handle);
    }
    char *chunk = slots->directory[position >> slots->shift];
    if (__builtin_expect(chunk == NULL, 0)) {
        return false;
    }
    size_t index = ps_slots_index(slots, position);
    char *place = ps_slots_place(chunk, index, shape);
    if (__builtin_expect(*ps_slots_stamp(place) != handle, 0)) {
        return false;
    }
    ps_slots_flip(slots, chunk, index);
    uint64_t generation = (handle | shape.position_mask) + 1;
    *ps_slots_stamp(place) = (generation | slots->free) ^ PS_SLOTS_FREE;
    slots->free = position;
    slots->live_count--;
    return true;
}

__attribute__((always_inline)) static inline void *
ps_slots_next_shaped(const struct ps_slots *slots, struct ps_slots_cursor *cursor,
                     struct ps_slots_shape shape) {
    while (__builtin_expect(cursor->rest != 0, 1)) { /* ends: a bit less each time */
        char *place = cursor->places + (size_t)__builtin_ctzll(cursor->rest) * shape.stride;
        cursor->rest &= cursor->rest - 1;
        if (__builtin_expect(ps_slots_is_live(place), 1)) {
            return place;
        }
    }
    struct ps_slots_cursor copy = *cursor; /* so that the cursor itself can be in registers */
    void *object = ps_slots_next_slow(slots, &copy);
    *cursor = copy;
    return object;
}

/*
 * A new object, uninitialised: *object. Returns its handle, which with handle_bits = 32 is below
 * 2^32. 0 and ENOMEM: memory is exhausted, max_items live, or all positions are used or used up;
 * *object is as it was. O(1), amortised: the table of chunks doubles.
 */
static inline uint64_t ps_slots_insert(struct ps_slots *slots, void **object) {
    return ps_slots_insert_shaped(slots, object, ps_slots_shape_of(slots));
}

/* The object; NULL: it was removed, or the number is no handle of this map. Preserves errno.
 * O(1). */
static inline void *ps_slots_get(const struct ps_slots *slots, uint64_t handle) PS_NOEXCEPT {
    return ps_slots_get_shaped(slots, handle, ps_slots_shape_of(slots));
}

/* Removes an object. False: it was removed before, or the number is no handle of this map.
 * Preserves errno. O(1). */
static inline bool ps_slots_remove(struct ps_slots *slots, uint64_t handle) PS_NOEXCEPT {
    return ps_slots_remove_shaped(slots, handle, ps_slots_shape_of(slots));
}

/* The handle of a live object. O(1). */
static inline uint64_t ps_slots_handle(const void *object) PS_NOEXCEPT {
    return ((const uint64_t *)object)[-1];
}

/*
 * The live objects in order of position:
 *
 *     struct ps_slots_cursor cursor = ps_slots_begin();
 *     for (struct entity *e; (e = ps_slots_next(&slots, &cursor)) != NULL;) { ... }
 *
 * NULL: there are no more. The map may be changed meanwhile, but not trimmed, moved or destroyed:
 * objects may be removed, also the one returned last; those removed before their turn are not
 * visited; inserted ones may or may not be. O(1) per object and per 64 holes.
 */
static inline struct ps_slots_cursor ps_slots_begin(void) PS_NOEXCEPT {
    struct ps_slots_cursor cursor;
    cursor.rest = 0;
    cursor.places = NULL;
    cursor.next = 0;
    return cursor;
}
static inline void *ps_slots_next(const struct ps_slots *slots,
                                  struct ps_slots_cursor *cursor) PS_NOEXCEPT {
    return ps_slots_next_shaped(slots, cursor, ps_slots_shape_of(slots));
}

/* Takes memory now, so that `count` more inserts need no call of the source. False and ENOMEM:
 * memory is exhausted, or max_items or the positions do not suffice; chunks taken until then remain
 * in the map. O(count). */
PS_API bool ps_slots_reserve(struct ps_slots *slots, size_t count);

/*
 * Returns chunks without a live object to the source until at most keep_bytes of them are left,
 * except those of whose positions a part is used up. Returns their bytes. Stale handles remain
 * stale: a reused position begins with a generation that no position of its chunk had. O(positions
 * + free places).
 */
PS_API size_t ps_slots_trim_to(struct ps_slots *slots, size_t keep_bytes) PS_NOEXCEPT;
/* As it was called before. */
PS_DEPRECATED("use ps_slots_trim_to(slots, 0)")
PS_API size_t ps_slots_trim(struct ps_slots *slots) PS_NOEXCEPT;

/* Lists the slots in the registry of poolshim/registry.h, until they are destroyed; does nothing if
 * they are listed. False and ENOMEM: not listed. A lock. */
PS_API bool ps_slots_enlist(struct ps_slots *slots) PS_NOEXCEPT;

struct ps_slots_stats {
    const char *name;
    size_t size_bytes;     /* of an object, as requested */
    size_t stride_bytes;   /* what one takes */
    size_t used_count;     /* live objects */
    size_t free_count;     /* inserts that need no call of the source */
    size_t used_up_count;  /* positions that have memory and will not be given out again */
    size_t position_count; /* positions given out so far, and those of trimmed chunks */
    size_t chunk_count;    /* taken from the source, the table of chunks included */
    size_t total_bytes;    /* of them */
    size_t max_items;      /* 0: no limit */
};
/* O(1). */
PS_API void ps_slots_stats(const struct ps_slots *slots, struct ps_slots_stats *stats) PS_NOEXCEPT;

/* Walks the map: stamps, bits, counts and the list of free places agree. O(positions). */
PS_API bool ps_slots_check(const struct ps_slots *slots) PS_NOEXCEPT;

PS_END_DECLS

#endif
