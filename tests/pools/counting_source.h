/* SPDX-License-Identifier: MIT */
/*
 * A source that counts, fills what it gives, and fails when it is told to. Included by pool tests
 * after unit.h.
 */
#ifndef PS_TESTS_POOLS_COUNTING_SOURCE_H
#define PS_TESTS_POOLS_COUNTING_SOURCE_H

#include <errno.h>
#include <poolshim/source.h>
#include <stdlib.h>
#include <string.h>

/* Fails from the call number fail_at on; 0: never. */
struct counting_source {
    struct ps_source source;
    size_t calls;
    size_t fail_at;
    size_t live_bytes;
};

static void *counting_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct counting_source *counting = (struct counting_source *)source;
    void *chunk = NULL;
    counting->calls++;
    if (counting->fail_at != 0 && counting->calls >= counting->fail_at) {
        errno = ENOMEM;
        return NULL;
    }
    REQUIRE(posix_memalign(&chunk, align < 16 ? 16 : align, bytes) == 0);
    memset(chunk, 0x5a, bytes);
    __atomic_fetch_add(&counting->live_bytes, bytes, __ATOMIC_RELAXED);
    return chunk;
}

static void counting_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct counting_source *counting = (struct counting_source *)source;
    __atomic_fetch_sub(&counting->live_bytes, bytes, __ATOMIC_RELAXED);
    free(chunk);
}

__attribute__((unused)) static struct counting_source new_source(void) {
    return (struct counting_source){.source = {counting_alloc, counting_free}};
}

#endif
