/* SPDX-License-Identifier: MIT */
/*
 * source.h - where a pool gets its chunks from.
 *
 * Every family takes chunks of memory from a source and cuts them into blocks. The default source,
 * NULL, is the page cache of pages.h, shared by all families, all threads and a preloaded
 * libpoolshim.so. Another source is a struct with two functions and whatever state they need behind
 * it:
 *
 *     struct my_source { struct ps_source source; struct arena *arena; };
 *
 * A source outlives the pools that use it.
 */
#ifndef POOLSHIM_SOURCE_H
#define POOLSHIM_SOURCE_H

#include <poolshim/common.h>

PS_BEGIN_DECLS

struct ps_source {
    /* bytes: > 0. align: power of two, at most 64 KiB. NULL when memory is out, errno ENOMEM. */
    void *(*alloc)(struct ps_source *source, size_t bytes, size_t align);
    /* chunk, bytes: as they were allocated. Keeps errno. */
    void (*free)(struct ps_source *source, void *chunk, size_t bytes);
};

/* malloc and free of the program. Any thread. */
PS_API struct ps_source *ps_source_malloc(void) PS_NOEXCEPT;

/* A mapping per chunk. Any thread. */
enum ps_mmap_flags {
    PS_MMAP_GUARD = 1, /* a page without access on both sides of each chunk */
    PS_MMAP_HUGE = 2,  /* asks for huge pages */
};
struct ps_source_mmap {
    struct ps_source source;
    unsigned flags;
};
PS_API void ps_source_mmap_init(struct ps_source_mmap *source, unsigned flags) PS_NOEXCEPT;

/* The caller's own buffer, first in, first served; only the newest chunk comes back. One thread. */
struct ps_source_buffer {
    struct ps_source source;
    char *base;
    size_t bytes;
    size_t used_bytes;
};
PS_API void ps_source_buffer_init(struct ps_source_buffer *source, void *buffer,
                                  size_t bytes) PS_NOEXCEPT;

/* An account: counts what its pools hold, and refuses above the limit. Any thread. Passes the rest
 * on to `next` (NULL: the page cache). */
struct ps_source_account {
    struct ps_source source;
    struct ps_source *next;
    size_t limit_bytes;  /* 0: none */
    size_t x_used_bytes; /* read it by ps_source_account_used */
};
PS_API void ps_source_account_init(struct ps_source_account *source, struct ps_source *next,
                                   size_t limit_bytes) PS_NOEXCEPT;
PS_API size_t ps_source_account_used(const struct ps_source_account *source) PS_NOEXCEPT;

/*
 * Asked when a source has refused `bytes`: 0 gives up (NULL, ENOMEM), anything else tries once
 * more. May not use the pool; may longjmp or throw out of it: the pool is as it was.
 */
typedef int ps_oom_handler(void *context, size_t bytes);

/* How a pool gets its chunks: the first member, `chunks`, of every family's options. All zero is
 * the default. */
struct ps_chunk_options {
    struct ps_source *source; /* NULL: the page cache */
    size_t first_bytes;       /* first chunk; 0: the family's default */
    size_t max_bytes;         /* chunks double up to this; 0: the family's default. What is larger
                                 gets a chunk of its own. */
    ps_oom_handler *oom;      /* NULL: none */
    void *oom_context;
    const char *name; /* for statistics and messages, not copied; NULL: the family's name */
};

PS_END_DECLS

#endif
