/* SPDX-License-Identifier: MIT */
/*
 * See ps_pool_source of poolshim/pool.h: objects of a pool, alone or side by side, as chunks for
 * other pools. No locks: one thread at a time, as the pool.
 */
#include "pools/pool/pool.h"

#include <errno.h>

static size_t count_for(const struct ps_pool *pool, size_t bytes) {
    return bytes / pool->stride + (bytes % pool->stride != 0);
}

static void *source_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct ps_pool *pool = ((struct ps_pool_source *)source)->pool;
    if (align > pool->align) {
        errno = EINVAL;
        return NULL;
    }
    return ps_pool_alloc_n(pool, count_for(pool, bytes));
}

static void source_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct ps_pool *pool = ((struct ps_pool_source *)source)->pool;
    int saved_errno = errno;
    ps_pool_free_n(pool, chunk, count_for(pool, bytes));
    errno = saved_errno;
}

void ps_pool_source_init(struct ps_pool_source *source, struct ps_pool *pool) {
    *source = (struct ps_pool_source){{source_alloc, source_free}, pool};
}
