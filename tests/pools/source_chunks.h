/* SPDX-License-Identifier: MIT */
/* Takes chunks from a source and returns them; checks the rules of all sources. */
#ifndef PS_TESTS_POOLS_SOURCE_CHUNKS_H
#define PS_TESTS_POOLS_SOURCE_CHUNKS_H

#include "tests/unit/unit.h"

#include <errno.h>
#include <poolshim/source.h>

#define FILLED 0x5a
#define FILLED_BYTES_MAX ((size_t)16 << 20) /* some chunks are longer than memory should be */

/* Filled, or NULL: refused. */
static char *take(struct ps_source *source, size_t bytes, size_t align) {
    errno = EDOM;
    char *chunk = source->alloc(source, bytes, align);
    if (chunk != NULL) {
        CHECK_EQ(errno, EDOM);
        CHECK_EQ((uintptr_t)chunk & (align - 1), 0);
        memset(chunk, FILLED, bytes < FILLED_BYTES_MAX ? bytes : FILLED_BYTES_MAX);
        chunk[bytes - 1] = FILLED;
    }
    return chunk;
}

static void give(struct ps_source *source, char *chunk, size_t bytes) {
    errno = EDOM;
    source->free(source, chunk, bytes);
    CHECK_EQ(errno, EDOM);
}

#endif
