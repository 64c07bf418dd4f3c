/* SPDX-License-Identifier: MIT */
/*
 * Marks on memory for AddressSanitizer and valgrind's memcheck: bytes that the program may not
 * touch, and that it may again; and for memcheck which blocks of a pool were allocated and freed,
 * so that it names the calls that did it. In other builds and runs a mark costs a load and a jump.
 * The requests are macros of valgrind's headers: nothing is linked. No locks. Callers: the
 * families, pages.c. The only file of the pools library with #if.
 */
#ifndef PS_COMMON_POISON_H
#define PS_COMMON_POISON_H

#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define PS_HAS_ASAN 1
#endif
#elif defined(__SANITIZE_ADDRESS__)
#define PS_HAS_ASAN 1
#endif

#if defined(PS_HAS_ASAN)

#include <sanitizer/asan_interface.h>

#define PS_IS_WATCHED 1
#define PS_MARK_NO_ACCESS(memory, bytes) __asan_poison_memory_region((memory), (bytes))
#define PS_MARK_UNDEFINED(memory, bytes) __asan_unpoison_memory_region((memory), (bytes))
#define PS_MARK_DEFINED(memory, bytes) __asan_unpoison_memory_region((memory), (bytes))
#define PS_IS_MEMCHECK 0

#else

#if defined(__has_include) && __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#else
#define NVALGRIND 1 /* as the file does for processors that valgrind lacks */
#endif

#if !defined(NVALGRIND)

/* Only memcheck replies; other tools of valgrind should see the code as it is without. */
#define PS_IS_WATCHED (VALGRIND_MAKE_MEM_DEFINED(&ps_poison_is_on, 1) != 0)
#define PS_MARK_NO_ACCESS(memory, bytes) ((void)VALGRIND_MAKE_MEM_NOACCESS((memory), (bytes)))
#define PS_MARK_UNDEFINED(memory, bytes) ((void)VALGRIND_MAKE_MEM_UNDEFINED((memory), (bytes)))
#define PS_MARK_DEFINED(memory, bytes) ((void)VALGRIND_MAKE_MEM_DEFINED((memory), (bytes)))
#define PS_IS_MEMCHECK PS_IS_WATCHED
#define PS_MEMPOOL_EXISTS(pool) VALGRIND_MEMPOOL_EXISTS(pool)
#define PS_MEMPOOL_CREATE(pool) VALGRIND_CREATE_MEMPOOL((pool), 0, 0)
#define PS_MEMPOOL_DESTROY(pool) VALGRIND_DESTROY_MEMPOOL(pool)
#define PS_MEMPOOL_MOVE(from, to) VALGRIND_MOVE_MEMPOOL((from), (to))
#define PS_MEMPOOL_ALLOC(pool, block, bytes) VALGRIND_MEMPOOL_ALLOC((pool), (block), (bytes))
#define PS_MEMPOOL_FREE(pool, block) VALGRIND_MEMPOOL_FREE((pool), (block))

#else

#define PS_IS_WATCHED 0
#define PS_MARK_NO_ACCESS(memory, bytes) ((void)(memory), (void)(bytes))
#define PS_MARK_UNDEFINED(memory, bytes) ((void)(memory), (void)(bytes))
#define PS_MARK_DEFINED(memory, bytes) ((void)(memory), (void)(bytes))
#define PS_IS_MEMCHECK 0

#endif

#endif

#if !defined(PS_MEMPOOL_CREATE)
#define PS_MEMPOOL_EXISTS(pool) ((void)(pool), 0)
#define PS_MEMPOOL_CREATE(pool) ((void)(pool))
#define PS_MEMPOOL_DESTROY(pool) ((void)(pool))
#define PS_MEMPOOL_MOVE(from, to) ((void)(from), (void)(to))
#define PS_MEMPOOL_ALLOC(pool, block, bytes) ((void)(pool), (void)(block), (void)(bytes))
#define PS_MEMPOOL_FREE(pool, block) ((void)(pool), (void)(block))
#endif

/* True when a sanitizer reads the marks. Set before main, constant afterwards. */
extern PS_HIDDEN bool ps_poison_is_on;
/* True when it is memcheck. */
extern PS_HIDDEN bool ps_poison_is_memcheck;

/* A pool, named by its address, for memcheck; nothing elsewhere. It is made before its blocks and
 * forgotten with them; one of the same address that was not forgotten is. */
void ps_mempool_create(const void *pool);
void ps_mempool_destroy(const void *pool);
/* `from` has become `to`; there is a new, empty one at `from`. */
void ps_mempool_move(const void *from, const void *to);
/* A block that the program has now; its contents are undefined. */
void ps_mempool_alloc(const void *pool, const void *block, size_t bytes);
void ps_mempool_free(const void *pool, const void *block);

void ps_poison_slow(const void *memory, size_t bytes);
void ps_unpoison_slow(const void *memory, size_t bytes);
void ps_unpoison_defined_slow(const void *memory, size_t bytes);

/* Marks bytes as inaccessible for the program. */
static inline void ps_poison(const void *memory, size_t bytes) {
    if (PS_UNLIKELY(ps_poison_is_on)) {
        ps_poison_slow(memory, bytes);
    }
}

/* Marks bytes as accessible, with undefined contents. */
static inline void ps_unpoison(const void *memory, size_t bytes) {
    if (PS_UNLIKELY(ps_poison_is_on)) {
        ps_unpoison_slow(memory, bytes);
    }
}

/* Marks bytes as accessible and defined. */
static inline void ps_unpoison_defined(const void *memory, size_t bytes) {
    if (PS_UNLIKELY(ps_poison_is_on)) {
        ps_unpoison_defined_slow(memory, bytes);
    }
}

#endif
