/* SPDX-License-Identifier: MIT */
/*
 * The watch over memory that pools take, for a heap profile: libpoolshim.so has one,
 * poolshim_pools_watch. If it is in the process, by a preload or linked, libpoolshim-pools.so finds
 * it by that name. A program with the pools linked in (libpoolshim-pools.a, poolshim-pools.c) finds
 * it, too, although its page cache is another.
 *
 * Pages are watched by pools/pages/pages.c, in whichever library serves them. A pool announces each
 * chunk before it takes it (pools/common/chunk.h), so that its name is in the sample.
 *
 * No locks. Callers: common/chunk.c, pages/, families that take pages without chunk.c.
 */
#ifndef PS_PAGE_WATCH_H
#define PS_PAGE_WATCH_H

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/compiler.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Another version of the library may have made it: members are appended, none is changed. */
struct ps_pools_watch {
    const uint32_t *x_demand; /* 0: nothing is sampled */
    /* Each run that is allocated, and before each free, which may be of a part of a run; without
     * locks. */
    void (*pages_taken)(void *pages, size_t bytes);
    void (*pages_freed)(const void *pages);
    /* While there is a demand: the calling thread takes `bytes` for a pool until `chunk_ends`;
     * SIZE_MAX: not as pages. False: no sample is due, and chunk_ends is not called. name: NULL or
     * the family's: none. The texts are not used later. */
    bool (*chunk_begins)(const char *family, const char *name, size_t bytes);
    void (*chunk_ends)(void);
};

/* Defined in libpoolshim.so. Weak: its address is NULL if that is not in the process. */
extern const struct ps_pools_watch poolshim_pools_watch
    __attribute__((weak, visibility("default")));

/* From now on, for good. NULL: nothing changes. Any thread. */
void ps_watch_set(const struct ps_pools_watch *watch);

extern PS_HIDDEN const struct ps_pools_watch *ps_watch_x_set; /* NULL: none */

/* The watch; NULL: there is none. */
static inline const struct ps_pools_watch *ps_watch_now(void) {
    return ps_load_acquire(&ps_watch_x_set); /* acquire: pairs with ps_watch_set */
}

/* True if the chunk that the calling thread takes has to be ended. */
static inline bool ps_watch_begin(const struct ps_pools_watch *watch, const char *family,
                                  const char *name, size_t bytes) {
    /* relaxed: a profile that begins at this moment may miss it; chunk_begins reads it again. */
    return PS_UNLIKELY(watch != NULL && ps_load_relaxed(watch->x_demand) != 0) &&
           watch->chunk_begins(family, name, bytes);
}

#endif
