/* SPDX-License-Identifier: MIT */
/*
 * One block under check: made by some call of the API, filled, watched, and freed by some
 * other. Every function here counts the API calls it makes in finding_place.operation and reports
 * the first thing that is not as promised. A block belongs to one thread at a time.
 */
#ifndef PS_STRESS_BLOCK_H
#define PS_STRESS_BLOCK_H

#include "tests/stress/lib/random.h"

#include <stddef.h>
#include <stdint.h>

enum block_call {
    BLOCK_MALLOC,
    BLOCK_CALLOC,
    BLOCK_REALLOC,
    BLOCK_REALLOCARRAY,
    BLOCK_POSIX_MEMALIGN,
    BLOCK_ALIGNED_ALLOC,
    BLOCK_MEMALIGN,
    BLOCK_VALLOC,
    BLOCK_PVALLOC,
    BLOCK_CALLS,
    BLOCK_NEW = BLOCK_CALLS, /* and with the form of operator new added, see operators.h */
};

struct block {
    unsigned char *bytes; /* NULL: no block; written last, withdrawn first, for fork children */
    size_t size;          /* requested */
    size_t usable;        /* from malloc_usable_size: filled and marked */
    uint64_t seed;        /* of the contents */
    uint64_t maker;       /* serial of the thread that made it */
    uint32_t alignment;   /* requested, 0 by calls without one */
    uint32_t call;        /* enum block_call */
};

/*
 * Once, before any thread. Looks up what libc may not have; calls that come from another library
 * than malloc does (an allocator need not replace all of them) are left out, and with `is_plain`
 * the aligned ones and requests that fail too. may_refuse: ENOMEM is no finding; operator new,
 * which would throw, is left out.
 */
void block_start(int is_plain, int may_refuse);

/* Number of requests that were refused. */
extern unsigned long long block_refusals;

/* A call for which a block of `size` is often made, the plain ones most. */
enum block_call block_random_call(struct random_state *random);

/* Makes, checks and fills. *block was empty, and is if the request was refused. */
void block_make(struct block *block, enum block_call call, size_t size,
                struct random_state *random);

/* Checks and frees, by free or one of its sized kin; *block is empty then, or was. */
void block_give_back(struct block *block, struct random_state *random);

/* Whether realloc may have it: what operator new made goes by operator delete only. */
static inline int block_is_of_malloc(const struct block *block) { return block->call < BLOCK_NEW; }

/* Checks, reallocates to `size` by realloc or reallocarray, checks the old contents, fills anew. */
void block_resize(struct block *block, size_t size, struct random_state *random);

/* Checks the contents only. */
void block_verify(const struct block *block);

/* Requests that cannot be served or make no sense: refused, with the right errno. */
void block_ask_impossible(struct random_state *random);

#endif
