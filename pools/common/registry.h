/* SPDX-License-Identifier: MIT */
/*
 * The list of pools for poolshim/registry.h, and the reports of leaks under PS_DEBUG=leaks. It
 * identifies a pool by its struct ps_chunks, whose `record` is set while the pool is listed.
 * Callers: the families, chunk.c. Lock: the registry's, taken here only, under no other lock of the
 * library; nothing is called under it.
 */
#ifndef PS_COMMON_REGISTRY_H
#define PS_COMMON_REGISTRY_H

#include "pools/common/chunk.h"
#include "pools/common/debug.h"
#include "pools/engine/base/compiler.h"

#include <poolshim/registry.h>

/* One constant per family. */
struct ps_family {
    const char *name;
    /* The live blocks of a pool, and their bytes as the caller requested them, or as they take;
     * NULL: the family frees all blocks by its end, so that a live one is no leak. */
    size_t (*live)(void *pool, size_t *bytes);
    bool must_end; /* made by the library: one that exists at exit is a leak */
};

/* Lists a pool that is not listed yet, with the chunks that it has: the body of ps_<family>_enlist.
 * False and ENOMEM. */
bool ps_registry_enter(struct ps_chunks *chunks, void *pool, const struct ps_family *family);

/* At the end of a pool, while it is whole: reports a leak if leaks are, and takes it off the list.
 */
PS_COLD void ps_registry_leave(struct ps_chunks *chunks);

/* *to has become what *from was, listing included; `pool` is its address now. */
PS_COLD void ps_registry_move(struct ps_chunks *to, struct ps_chunks *from, void *pool);

/* The pool has another name: chunks->name. */
PS_COLD void ps_registry_rename(struct ps_chunks *chunks);

/* chunk.c: adds to the figures of a listed pool; negative differences wrap. */
void ps_registry_count(struct ps_record *record, size_t more_bytes, size_t more_chunks);

/* When a pool has been made. */
static inline void ps_registry_note_made(struct ps_chunks *chunks, void *pool,
                                         const struct ps_family *family) {
    if (PS_UNLIKELY(ps_debug_is_leaks())) {
        (void)ps_registry_enter(chunks, pool, family); /* without memory it is not listed */
    }
}

/* When it ends. */
static inline void ps_registry_note_ended(struct ps_chunks *chunks) {
    if (PS_UNLIKELY(chunks->record != NULL)) {
        ps_registry_leave(chunks);
    }
}

#endif
