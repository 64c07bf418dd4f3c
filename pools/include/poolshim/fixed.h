/* SPDX-License-Identifier: MIT */
/*
 * fixed.h - a pool of a fixed number of objects inside memory of the program: no allocation at all.
 *
 * The storage is a static variable, a member, an array on the stack, or a buffer. No source, no
 * system call, no library to link: this header is all. Use it where nothing may be allocated:
 * signal handlers, real-time threads, before main, in a child between fork and exec. In C++:
 * fixed.hpp.
 *
 *     static PS_FIXED(struct message, 16) messages = PS_FIXED_INIT(messages);
 *
 *     struct message *message = ps_fixed_alloc(&messages.pool);        // NULL: all 16 are in use
 *     ps_fixed_free(&messages.pool, message);
 *
 * or, in memory that is known at run time only:
 *
 *     struct ps_fixed pool;
 *     size_t count = ps_fixed_init(&pool, buffer, sizeof buffer, sizeof(struct message), 0);
 *
 * ps_fixed_alloc and ps_fixed_free are for one thread at a time, as in all pools.
 * ps_fixed_alloc_shared and ps_fixed_free_shared may be called by any thread and by signal handlers
 * at any time, also by one that has interrupted either of them; they never block: a call retries
 * only if another one has succeeded in between. Both pairs may be used on one pool if the first is
 * not used together with anything else.
 *
 * Reuse is newest first; objects never used come in order of address, and memory is not touched
 * before. Contents of free objects are preserved. Each object has 4 bytes beside it: the number of
 * the next free object, or a mark if it is in use. By the mark every build detects a second free,
 * and the free of a foreign pointer or of one into an object: one line on stderr, then abort.
 *
 * ps_fixed_alloc_unchecked and ps_fixed_free_unchecked have no marks: the free objects are a list
 * by pointers, and no misuse is detected. A pool is used by them alone, or by the others.
 *
 * Cost: some ten instructions for alloc and free each, and a division by the size in C; the shared
 * ones one compare-and-swap each, the unchecked ones five instructions and two. errno is preserved,
 * also when all objects are in use.
 *
 * PS_DEBUG has no effect. In the child of a fork, objects that other threads had in use remain in
 * use.
 *
 * The shared list is Treiber's stack (1986) with the counter of IBM System/370 against ABA: the
 * head is swapped together with the number of allocations so far, modulo 2^32.
 */
#ifndef POOLSHIM_FIXED_H
#define POOLSHIM_FIXED_H

#include <poolshim/common.h>

#include <stdlib.h>
#include <unistd.h>

PS_BEGIN_DECLS

#define PS_FIXED_COUNT_MAX PS_CAST(size_t, 0x7fffffff)

/* The library's own: the link of an object in use. */
#define PS_FIXED_IN_USE 0x80000000u

/* All fields are the library's own. */
struct ps_fixed {
    uint64_t x_head;  /* allocations << 32 | the newest free object; `count`: none is free */
    uint32_t *x_next; /* of each object: see ps_fixed_link */
    char *objects;
    uint32_t count;
    uint32_t stride;
    void *unchecked_free;       /* unchecked pools: the newest free object, NULL: none */
    uint32_t unchecked_touched; /* and how many were ever allocated */
};

/* The type of a pool with its storage, for variables and members. */
#define PS_FIXED(type, object_count)                                                               \
    struct {                                                                                       \
        struct ps_fixed pool;                                                                      \
        uint32_t x_next[object_count];                                                             \
        type objects[object_count];                                                                \
    }

/* Initialises it: a constant for static variables. */
#define PS_FIXED_INIT(variable)                                                                    \
    {                                                                                              \
        .pool = {                                                                                  \
            .x_next = (variable).x_next,                                                           \
            .objects = (char *)(variable).objects,                                                 \
            .count = sizeof(variable).x_next / sizeof *(variable).x_next,                          \
            .stride = sizeof *(variable).objects                                                   \
        }                                                                                          \
    }

/* ---- the library's own: lists of numbers, also of fixed.hpp ---- */

__attribute__((cold, noinline, noreturn, unused)) static void ps_fixed_misuse(const char *line,
                                                                              size_t bytes) {
    if (write(2, line, bytes) < 0) {
        abort(); /* as below: nothing more to do */
    }
    abort();
}

#define PS_FIXED_MISUSE(line) ps_fixed_misuse("poolshim: " line "\n", sizeof("poolshim: " line))

/* A link is the next number less its own number + 1, so that a pool of zeros is an initialised one:
 * each object is followed by the next. */
static inline uint32_t ps_fixed_link(uint32_t index, uint32_t next) { return next - (index + 1); }
static inline uint32_t ps_fixed_follow(uint32_t index, uint32_t link) { return index + 1 + link; }

/* The number of an object that is now in use; `count`: none is free. */
static inline uint32_t ps_fixed_take(uint64_t *x_head, uint32_t *x_next, uint32_t count) {
    uint32_t index = (uint32_t)*x_head;
    if (__builtin_expect(index != count, 1)) {
        *x_head = ps_fixed_follow(index, x_next[index]);
        x_next[index] = PS_FIXED_IN_USE;
    }
    return index;
}

/* Ends the program if an object is not in use. relaxed: the calling thread has the object, and has
 * seen its mark with it. */
static inline void ps_fixed_check(const uint32_t *x_next, uint32_t index) {
    if (__builtin_expect(__atomic_load_n(&x_next[index], __ATOMIC_RELAXED) != PS_FIXED_IN_USE, 0)) {
        PS_FIXED_MISUSE("double free in a fixed pool");
    }
}

/* Returns an object that is in use. */
static inline void ps_fixed_put(uint64_t *x_head, uint32_t *x_next, uint32_t index) {
    x_next[index] = ps_fixed_link(index, (uint32_t)*x_head);
    *x_head = index;
}

static inline uint32_t ps_fixed_take_shared(uint64_t *x_head, uint32_t *x_next, uint32_t count) {
    for (;;) { /* ends: a swap fails when another one has succeeded */
        /* acquire: pairs with the release of the put; makes the link and the object visible. Takes
         * in between are read-modify-writes, so they do not break the pair. */
        uint64_t head = __atomic_load_n(x_head, __ATOMIC_ACQUIRE);
        uint32_t index = (uint32_t)head;
        if (__builtin_expect(index == count, 0)) {
            return index;
        }
        /* relaxed: where it is not the link of this head, the swap fails. */
        uint32_t link = __atomic_load_n(&x_next[index], __ATOMIC_RELAXED);
        uint64_t uses = (head >> 32) + 1;
        uint64_t next = uses << 32 | ps_fixed_follow(index, link);
        /* relaxed: a head never comes again, since a take counts, so this is the one loaded above.
         */
        if (__atomic_compare_exchange_n(x_head, &head, next, 1, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            /* relaxed: the object goes to another thread by a release of the program's, or of the
             * put. */
            __atomic_store_n(&x_next[index], PS_FIXED_IN_USE, __ATOMIC_RELAXED);
            return index;
        }
    }
}

static inline void ps_fixed_put_shared(uint64_t *x_head, uint32_t *x_next, uint32_t index) {
    uint64_t head = __atomic_load_n(x_head, __ATOMIC_RELAXED); /* relaxed: the swap decides */
    uint64_t next;
    do { /* ends: as above */
        /* relaxed: published by the swap. */
        __atomic_store_n(&x_next[index], ps_fixed_link(index, (uint32_t)head), __ATOMIC_RELAXED);
        next = (head & ~(uint64_t)0xffffffff) | index;
        /* release: pairs with the acquires of the take; hands on the link and the object. */
    } while (
        !__atomic_compare_exchange_n(x_head, &head, next, 1, __ATOMIC_RELEASE, __ATOMIC_RELAXED));
}

/* The number of an object, which must be one. */
static inline uint32_t ps_fixed_index(const char *objects, uint32_t count, uint32_t stride,
                                      const void *object) {
    size_t offset = (size_t)((uintptr_t)object - (uintptr_t)objects);
    if (__builtin_expect(offset >= (size_t)count * stride, 0)) {
        PS_FIXED_MISUSE("free of a foreign pointer in a fixed pool");
    }
    uint32_t index = (uint32_t)offset / stride; /* pools are below 4 GiB */
    if (__builtin_expect(index * stride != (uint32_t)offset, 0)) {
        PS_FIXED_MISUSE("free of a pointer into an object of a fixed pool");
    }
    return index;
}

/* ---- the pool ---- */

/*
 * Makes a pool in a buffer, which must live as long. size: bytes of an object, 0 counts as 1.
 * align: a power of two, 0: the largest that divides size, at most 16. Returns the number of
 * objects, at most PS_FIXED_COUNT_MAX in 4 GiB. 0: the buffer has no room for one, or align is
 * none; the pool is not usable then. O(objects): their links are cleared.
 */
static inline size_t ps_fixed_init(struct ps_fixed *pool, void *buffer, size_t bytes, size_t size,
                                   size_t align) {
    size += size == 0;
    align = align != 0 ? align : (size & (0 - size)) < 16 ? (size & (0 - size)) : 16;
    size_t limit = 0xffffffffu;
    size_t skip = (0 - (size_t)(uintptr_t)buffer) & (align - 1);
    if ((align & (align - 1)) != 0 || size > limit || align > limit || skip > bytes) {
        return 0;
    }
    size_t stride = (size + align - 1) & ~(align - 1);
    size_t room = bytes - skip < limit ? bytes - skip : limit;
    char *objects = (char *)buffer + skip;
    size_t count = room / (stride + sizeof(uint32_t));
    size_t gap = 0;     /* the links lie after the objects, aligned */
    while (count > 0) { /* ends: one less makes room for the gap */
        gap = (0 - ((size_t)(uintptr_t)objects + count * stride)) & (sizeof(uint32_t) - 1);
        if (count * (stride + sizeof(uint32_t)) + gap <= room) {
            break;
        }
        count--;
    }
    pool->x_head = 0;
    pool->objects = objects;
    pool->x_next = (uint32_t *)(void *)(objects + count * stride + gap);
    pool->count = (uint32_t)count;
    pool->stride = (uint32_t)stride;
    pool->unchecked_free = NULL;
    pool->unchecked_touched = 0;
    for (size_t index = 0; index < count; index++) {
        pool->x_next[index] = 0;
    }
    return count;
}

/* An object; NULL: all are in use. O(1). */
static inline void *ps_fixed_alloc(struct ps_fixed *pool) {
    uint32_t index = ps_fixed_take(&pool->x_head, pool->x_next, pool->count);
    return index != pool->count ? pool->objects + (size_t)index * pool->stride : NULL;
}

/* Frees an object of this pool. NULL does nothing. O(1). */
static inline void ps_fixed_free(struct ps_fixed *pool, void *object) {
    if (object != NULL) {
        uint32_t index = ps_fixed_index(pool->objects, pool->count, pool->stride, object);
        ps_fixed_check(pool->x_next, index);
        ps_fixed_put(&pool->x_head, pool->x_next, index);
    }
}

/* The same from any thread and in signal handlers. Lock-free. NULL: at one moment all were in use.
 */
static inline void *ps_fixed_alloc_shared(struct ps_fixed *pool) {
    uint32_t index = ps_fixed_take_shared(&pool->x_head, pool->x_next, pool->count);
    return index != pool->count ? pool->objects + (size_t)index * pool->stride : NULL;
}
static inline void ps_fixed_free_shared(struct ps_fixed *pool, void *object) {
    if (object != NULL) {
        uint32_t index = ps_fixed_index(pool->objects, pool->count, pool->stride, object);
        ps_fixed_check(pool->x_next, index);
        ps_fixed_put_shared(&pool->x_head, pool->x_next, index);
    }
}

/* The same without marks, for one thread at a time. Objects have 8 bytes at least. */
static inline void *ps_fixed_alloc_unchecked(struct ps_fixed *pool) {
    void *object = pool->unchecked_free;
    if (__builtin_expect(object != NULL, 1)) {
        __builtin_memcpy(&pool->unchecked_free, object, sizeof(void *)); /* of any alignment */
        return object;
    }
    size_t index = pool->unchecked_touched;
    if (index == pool->count) {
        return NULL;
    }
    pool->unchecked_touched++;
    return pool->objects + index * pool->stride;
}

/* object: one that ps_fixed_alloc_unchecked returned, not NULL. */
static inline void ps_fixed_free_unchecked(struct ps_fixed *pool, void *object) {
    __builtin_memcpy(object, &pool->unchecked_free, sizeof(void *));
    pool->unchecked_free = object;
}

/* True when an address, any at all, lies in the pool's objects. O(1). */
static inline bool ps_fixed_owns(const struct ps_fixed *pool, const void *address) {
    return (uintptr_t)address - (uintptr_t)pool->objects < (size_t)pool->count * pool->stride;
}

/* The next object in use, in order of address; *cursor: 0 at first. NULL: there are no more. The
 * object returned last may be freed meanwhile. Not together with other threads, and not of an
 * unchecked pool. O(objects). */
static inline void *ps_fixed_next(const struct ps_fixed *pool, size_t *cursor) {
    while (*cursor < pool->count) {
        size_t index = (*cursor)++;
        if (pool->x_next[index] == PS_FIXED_IN_USE) {
            return pool->objects + index * pool->stride;
        }
    }
    return NULL;
}

PS_END_DECLS

#endif
