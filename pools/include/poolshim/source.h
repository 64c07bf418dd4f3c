/* SPDX-License-Identifier: MIT */
/*
 * source.h - the sources from which pools take their chunks.
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
 * Another source is a struct with two functions, followed by their state:
 *
 *     struct my_source { struct ps_source source; struct arena *arena; };
 *
 * A source outlives the pools that use it, and must not move in memory. The threads that use its
 * pools call it: a source shared by pools of several threads must be thread-safe, as stated below
 * for each. Pools take only chunks from a source, never single blocks, so calls of it are rare.
 */
#ifndef POOLSHIM_SOURCE_H
#define POOLSHIM_SOURCE_H

#include <poolshim/common.h>

PS_BEGIN_DECLS

struct ps_source {
    /* bytes: > 0. align: power of two, at most 64 KiB. NULL when memory is exhausted, errno ENOMEM.
     */
    void *(*alloc)(struct ps_source *source, size_t bytes, size_t align);
    /* Takes back a whole chunk; chunk, bytes: as they were allocated, not NULL. Preserves errno. */
    void (*free)(struct ps_source *source, void *chunk, size_t bytes);
};

/*
 * malloc and free of the program, by posix_memalign. One source for all, never destroyed.
 * Any thread. Cost: the program's malloc.
 */
PS_API struct ps_source *ps_source_malloc(void) PS_NOEXCEPT;

/*
 * A mapping of its own for every chunk, so that tools that watch mappings see it, and an access to
 * a freed chunk faults at once. With a guard, a chunk ends at the guard page as nearly as its
 * alignment allows. align: a power of two up to 64 KiB, else EINVAL. It has no state, so it needs
 * no end. Any thread. Cost: two to five system calls for a chunk, rounded up to pages, and one to
 * give it back.
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
 * The caller's own buffer, cut from the front; only the newest chunk returns, others are lost until
 * the source is initialised again. The caller still owns the buffer, which must live as long as the
 * source and needs no alignment. One thread at a time. O(1).
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
 * address belongs to its pools, and 32-bit offsets from base serve as pointers. A pool that takes
 * chunk after chunk has contiguous memory; only its bound must be known before.
 *
 * A chunk that is returned drops its memory. Its addresses are used again if it was the newest one,
 * and then the one before it, or when all chunks have been returned. One thread at a time; an
 * account in front does not change that. Cost: a system call for each doubling of the committed
 * memory, from 64 KiB up to steps of 2 MiB, and one for each chunk returned.
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
 * Reserves max_bytes of addresses, rounded up to pages, without memory: not counted by limits of
 * memory, except RLIMIT_AS. max_bytes: 1 to PTRDIFF_MAX. To be ended by ps_source_reserve_destroy.
 * False, with an unusable source: EINVAL for max_bytes, ENOMEM. Beyond max_bytes chunks are refused
 * with ENOMEM, as when the system has no memory to commit.
 */
PS_API bool ps_source_reserve_init(struct ps_source_reserve *source, size_t max_bytes) PS_NOEXCEPT;
/* Unmaps the range, chunks of pools that still exist included. Preserves errno. A system call. */
PS_API void ps_source_reserve_destroy(struct ps_source_reserve *source) PS_NOEXCEPT;
/* True when an address lies in the used part of the range. O(1). */
static inline bool ps_source_reserve_owns(const struct ps_source_reserve *source,
                                          const void *address) PS_NOEXCEPT {
    return (uintptr_t)address - (uintptr_t)source->base < source->used_bytes;
}

/*
 * Huge pages that the system has set aside (hugetlbfs, vm.nr_hugepages): never split, never
 * swapped, of any size that the processor has, 2 MiB and 1 GiB on x86-64.
 *
 * A chunk of page_bytes and more is a mapping of whole huge pages of its own. Its pages are
 * reserved when it is taken, so that no later touch can fail for lack of them. If the system has
 * too few left, the chunk is ordinary memory of the same length, with transparent huge pages
 * advised, and refused_count counts it. A shorter chunk comes from the page cache. With
 * PS_HUGE_ONLY each chunk lies in huge pages, short ones too, and is refused with ENOMEM where the
 * system has too few. Set chunks.first_bytes and chunks.max_bytes of the pools to page_bytes or a
 * multiple; a pool of shorter objects as their source (ps_pool_source of pool.h) cuts a page for
 * many pools.
 *
 * A child of fork shares the pages until one of both writes, which takes a further huge page; where
 * there is none, the system ends the child at its next touch (SIGBUS), and the parent goes on.
 *
 * align: as for ps_source_mmap. Any thread. Needs no end. Cost: one system call for a chunk of huge
 * pages and one to give it back, besides the clearing of its memory at the first touch.
 */
enum ps_huge_flags {
    PS_HUGE_ONLY = 1, /* no other memory */
};
struct ps_source_huge {
    struct ps_source source;
    size_t page_bytes; /* may be read */
    unsigned flags;
    size_t x_huge_count; /* read them by ps_source_huge_stats */
    size_t x_refused_count;
};
/*
 * page_bytes: a size of huge pages; 0 for the system's usual one. flags: of enum ps_huge_flags, 0
 * for none. Reserves nothing. False, with a source that refuses: EINVAL for a size that is no power
 * of two and for other flags; ENOSYS where the system has no huge pages of this size; ENOMEM. A few
 * system calls.
 */
PS_API bool ps_source_huge_init(struct ps_source_huge *source, size_t page_bytes,
                                unsigned flags) PS_NOEXCEPT;
struct ps_source_huge_stats {
    size_t page_bytes;
    size_t huge_count;    /* chunks taken so far that lie in huge pages */
    size_t refused_count; /* chunks for which there were too few */
};
/* Any thread. O(1). */
PS_API void ps_source_huge_stats(const struct ps_source_huge *source,
                                 struct ps_source_huge_stats *stats) PS_NOEXCEPT;

/*
 * Memory of chosen NUMA nodes: a mapping of its own for every chunk, as ps_source_mmap, whose pages
 * the system takes from these nodes when they are first touched, whichever thread does it, also in
 * the child of a fork. By the system call mbind; nothing is linked. Huge pages that were set aside
 * cannot be chosen by node: the system reserves them without regard to it, and a touch could fail.
 *
 * Any thread. Needs no end. Cost: as ps_source_mmap, and one system call for a chunk.
 */
enum ps_numa_policy {
    PS_NUMA_BIND,       /* of these nodes alone; without any free there, the system reclaims memory,
                           and at last ends a process, as when the whole machine has none */
    PS_NUMA_PREFERRED,  /* of this one node, at most one; of others where it has none left. No
                           node: that of the thread that touches a page first */
    PS_NUMA_INTERLEAVE, /* of these nodes in turn, page by page */
};
struct ps_source_numa {
    struct ps_source source;
    struct ps_source_mmap mappings; /* the library's own, as all below */
    int mode;
    uint64_t nodes;
};
/*
 * nodes: a bit for each node, of 0 to 63. flags: of enum ps_mmap_flags. False, with a source that
 * refuses: EINVAL for an unknown policy, for no nodes or for several where the policy takes one,
 * and for nodes without memory for this process (ps_numa_nodes); ENOSYS where the system has no
 * NUMA, EPERM where a sandbox forbids the call; ENOMEM. A machine of one node has node 0. Three
 * system calls.
 */
PS_API bool ps_source_numa_init(struct ps_source_numa *source, enum ps_numa_policy policy,
                                uint64_t nodes, unsigned flags) PS_NOEXCEPT;
/* The nodes, 0 to 63, whose memory this process may use, a bit for each. 0: ENOSYS, the system has
 * no NUMA, or EPERM, a sandbox forbids the call. A system call. */
PS_API uint64_t ps_numa_nodes(void) PS_NOEXCEPT;

/*
 * An account: counts the bytes of its pools' chunks, and refuses chunks above the limit (NULL,
 * ENOMEM; the pool then requests less, and at last calls its oom handler). Passes the rest on to
 * `next`, which must outlive it (NULL: the page cache). Any thread, if `next` is. Cost: an atomic
 * addition.
 */
struct ps_source_account {
    struct ps_source source;
    struct ps_source *next;
    size_t limit_bytes;  /* 0: none */
    size_t x_used_bytes; /* read it by ps_source_account_used */
};
/* limit_bytes: 0 for none. A limit below the present bytes does not affect existing chunks. */
PS_API void ps_source_account_init(struct ps_source_account *source, struct ps_source *next,
                                   size_t limit_bytes) PS_NOEXCEPT;
/* The present bytes of chunks, from any thread. */
PS_API size_t ps_source_account_used(const struct ps_source_account *source) PS_NOEXCEPT;

/*
 * Called when a source has refused `bytes`: 0 gives up (NULL, ENOMEM), anything else tries once
 * more. May not use the pool; may longjmp or throw out of it: the pool is as it was.
 */
typedef int ps_oom_handler(void *context, size_t bytes);

/* How a pool gets its chunks: the first member, `chunks`, of every family's options. All zero is
 * the default. When chunks return, by trim, reset or a free, the next one is at most as long as the
 * rest of the pool and first_bytes together: a pool that has given all back begins as a new one. */
struct ps_chunk_options {
    struct ps_source *source; /* NULL: the page cache */
    size_t first_bytes;       /* first chunk; 0: the family's default */
    size_t max_bytes;    /* chunks double up to this; 0: the family's default; larger blocks get a
                            chunk of their own */
    ps_oom_handler *oom; /* NULL: none */
    void *oom_context;
    const char *name; /* for statistics, heap profiles and messages, not copied: it lives as long as
                         the pool; NULL: the family's name */
};

PS_END_DECLS

#endif
