/* SPDX-License-Identifier: MIT */
/*
 * source.h - where a pool gets its chunks from.
 *
 * Every family takes chunks of memory from a source and cuts them into blocks. The default source,
 * NULL, is the page cache of pages.h, shared by all families, all threads and a preloaded
 * libpoolshim.so. Ready-made ones are malloc, mappings, the caller's own buffer, a reserved range,
 * huge pages set aside by the system, memory of chosen NUMA nodes, another pool (ps_pool_source of
 * pool.h), and an account with a limit; an account is put in front of another source:
 *
 *     struct ps_source_account account;
 *     ps_source_account_init(&account, NULL, (size_t)64 << 20);
 *     struct ps_region_options options = {.chunks = {.source = &account.source}};
 *
 * Another source is a struct with two functions and whatever state they need behind it:
 *
 *     struct my_source { struct ps_source source; struct arena *arena; };
 *
 * A source outlives the pools that use it, and keeps its place in memory. It is called by the
 * threads that use its pools: one that is shared by pools of several threads must be safe for
 * that, and says below whether it is. Only chunks are taken from a source, never single blocks, so
 * its cost is rare.
 */
#ifndef POOLSHIM_SOURCE_H
#define POOLSHIM_SOURCE_H

#include <poolshim/common.h>

PS_BEGIN_DECLS

struct ps_source {
    /* bytes: > 0. align: power of two, at most 64 KiB. NULL when memory is exhausted, errno ENOMEM.
     */
    void *(*alloc)(struct ps_source *source, size_t bytes, size_t align);
    /* Takes back a whole chunk; chunk, bytes: as they were allocated, not NULL. Keeps errno. */
    void (*free)(struct ps_source *source, void *chunk, size_t bytes);
};

/*
 * malloc and free of the program, by posix_memalign. One source for all, never destroyed.
 * Any thread. Cost: the program's malloc.
 */
PS_API struct ps_source *ps_source_malloc(void) PS_NOEXCEPT;

/*
 * A mapping of its own for every chunk, so that tools that watch mappings see them, and that a
 * freed chunk faults at once. With a guard, a chunk ends at the page behind it as nearly as its
 * alignment allows. align: else than a power of two up to 64 KiB is EINVAL. Holds nothing, so it
 * needs no end. Any thread. Cost: two to five system calls for a chunk, rounded up to pages, and
 * one to give it back.
 */
enum ps_mmap_flags {
    PS_MMAP_GUARD = 1, /* a page without access on both sides of each chunk */
    PS_MMAP_HUGE = 2,  /* advises huge pages, for chunks from 2 MiB on, aligned to that */
};
struct ps_source_mmap {
    struct ps_source source;
    unsigned flags;
};
/* flags: of enum ps_mmap_flags, 0 for none. */
PS_API void ps_source_mmap_init(struct ps_source_mmap *source, unsigned flags) PS_NOEXCEPT;

/*
 * The caller's own buffer, cut from the front; only the newest chunk returns, others are lost
 * until the source is made anew. The buffer stays the caller's: it must live as long as the source,
 * and needs no alignment. One thread at a time. O(1).
 */
struct ps_source_buffer {
    struct ps_source source;
    char *base;
    size_t bytes;
    size_t used_bytes; /* may be read */
};
/* buffer: `bytes` bytes; may be NULL when bytes is 0. */
PS_API void ps_source_buffer_init(struct ps_source_buffer *source, void *buffer,
                                  size_t bytes) PS_NOEXCEPT;

/*
 * A range of addresses, reserved at once and committed as chunks are taken from it: all chunks lie
 * side by side, from `base` on, and the range never moves. So one comparison tells whether an
 * address is of its pools, 32-bit offsets from base serve as pointers, and a pool that takes chunk
 * after chunk has one contiguous memory, whose size need not be known before, only its bound.
 *
 * A chunk that is returned drops its memory. Its addresses are used again if it was the newest one,
 * and then the one before it, or when all chunks have been returned. One thread at a time; an
 * account in front does not change that. Cost: a system call for each doubling of what is
 * committed, from 64 KiB up to steps of 2 MiB, and one for each chunk returned.
 */
struct ps_source_reserve {
    struct ps_source source;
    char *base; /* these may be read: page-aligned */
    size_t reserved_bytes;
    size_t used_bytes; /* from base to the end of the last chunk */
    size_t committed_bytes;
    size_t chunk_count; /* taken and not returned */
};
/*
 * Reserves max_bytes of addresses, rounded up to pages, without memory behind them: not counted by
 * limits of memory, except RLIMIT_AS. max_bytes: 1 to PTRDIFF_MAX. To be ended by
 * ps_source_reserve_destroy. False, with an unusable source: EINVAL for max_bytes, ENOMEM. Beyond
 * max_bytes chunks are refused with ENOMEM, as when the system has no memory to commit.
 */
PS_API bool ps_source_reserve_init(struct ps_source_reserve *source, size_t max_bytes) PS_NOEXCEPT;
/* Unmaps the range, chunks of pools that still exist included. Keeps errno. A system call. */
PS_API void ps_source_reserve_destroy(struct ps_source_reserve *source) PS_NOEXCEPT;
/* True when an address lies in the used part of the range. O(1). */
static inline bool ps_source_reserve_owns(const struct ps_source_reserve *source,
                                          const void *address) PS_NOEXCEPT {
    return (uintptr_t)address - (uintptr_t)source->base < source->used_bytes;
}

/*
 * An account: counts the bytes of the chunks that its pools hold, and refuses above the limit
 * (NULL, ENOMEM; the pool then requests less, and at last calls its oom handler). Passes the rest
 * on to `next`, which must outlive it (NULL: the page cache). Any thread, if `next` is. Cost: an
 * atomic addition.
 */
struct ps_source_account {
    struct ps_source source;
    struct ps_source *next;
    size_t limit_bytes;  /* 0: none */
    size_t x_used_bytes; /* read it by ps_source_account_used */
};
/* limit_bytes: 0 for none. Chunks that pools hold are not changed by a limit below them. */
PS_API void ps_source_account_init(struct ps_source_account *source, struct ps_source *next,
                                   size_t limit_bytes) PS_NOEXCEPT;
/* Bytes held now, seen from any thread. */
PS_API size_t ps_source_account_used(const struct ps_source_account *source) PS_NOEXCEPT;

/*
 * Called when a source has refused `bytes`: 0 gives up (NULL, ENOMEM), anything else tries once
 * more. May not use the pool; may longjmp or throw out of it: the pool is as it was.
 */
typedef int ps_oom_handler(void *context, size_t bytes);

/* How a pool gets its chunks: the first member, `chunks`, of every family's options. All zero is
 * the default. */
struct ps_chunk_options {
    struct ps_source *source; /* NULL: the page cache */
    size_t first_bytes;       /* first chunk; 0: the family's default */
    size_t max_bytes;    /* chunks double up to this; 0: the family's default; larger blocks get a
                            chunk of their own */
    ps_oom_handler *oom; /* NULL: none */
    void *oom_context;
    const char *name; /* for statistics and messages, not copied; NULL: the family's name */
};

PS_END_DECLS

#endif
