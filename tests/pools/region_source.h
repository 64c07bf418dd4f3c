/* SPDX-License-Identifier: MIT */
/*
 * A source for the tests of regions: malloc that counts, and fails from the Nth call on. One
 * thread.
 */
#ifndef PS_TESTS_POOLS_REGION_SOURCE_H
#define PS_TESTS_POOLS_REGION_SOURCE_H

#include <errno.h>
#include <poolshim/source.h>
#include <stdlib.h>

#define REGION_SOURCE_BYTES_MAX ((size_t)1 << 30) /* ASan ends a program that asks it for more */

struct region_source {
    struct ps_source source;
    size_t calls;
    size_t live_count;
    size_t live_bytes;
    size_t calls_max; /* those beyond fail */
};

static inline void *region_source_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct region_source *self = (struct region_source *)source;
    void *chunk = NULL;
    bool is_refused = self->calls++ >= self->calls_max || bytes > REGION_SOURCE_BYTES_MAX;
    if (is_refused || posix_memalign(&chunk, align, bytes) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    self->live_count++;
    self->live_bytes += bytes;
    return chunk;
}

static inline void region_source_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct region_source *self = (struct region_source *)source;
    self->live_count--;
    self->live_bytes -= bytes;
    free(chunk);
}

static inline struct region_source region_source_make(void) {
    struct region_source self = {{region_source_alloc, region_source_free}, 0, 0, 0, SIZE_MAX};
    return self;
}

#endif
