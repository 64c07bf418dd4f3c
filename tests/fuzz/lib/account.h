/* SPDX-License-Identifier: MIT */
/*
 * A source of chunks that refuses when told to and counts its live chunks, so that a target can see
 * that a pool returns all. One thread.
 */
#ifndef PS_FUZZ_ACCOUNT_H
#define PS_FUZZ_ACCOUNT_H

#include "tests/fuzz/lib/fuzz.h"

#include <errno.h>
#include <poolshim/source.h>

#define ACCOUNT_BYTES_MAX ((size_t)8 << 20)

struct account {
    struct ps_source source; /* first */
    size_t held_bytes;
    size_t chunk_count;
    unsigned refuse_after; /* chunks, then one is refused; 0: none is */
};

static inline void *account_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct account *account = (struct account *)(void *)source;
    void *chunk = NULL;
    FUZZ_CHECK(bytes > 0 && align <= 65536 && (align & (align - 1)) == 0);
    bool is_refused = account->refuse_after != 0 && --account->refuse_after == 0;
    if (is_refused || account->held_bytes + bytes > ACCOUNT_BYTES_MAX ||
        posix_memalign(&chunk, align < 16 ? 16 : align, bytes) != 0) {
        errno = ENOMEM;
        return NULL;
    }
    account->held_bytes += bytes;
    account->chunk_count++;
    return chunk;
}

static inline void account_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct account *account = (struct account *)(void *)source;
    FUZZ_CHECK(chunk != NULL && bytes <= account->held_bytes && account->chunk_count > 0);
    account->held_bytes -= bytes;
    account->chunk_count--;
    free(chunk); /* preserves errno: glibc's promise, and the sanitizers' */
}

static inline void account_start(struct account *account) {
    *account = (struct account){.source = {account_alloc, account_free}};
}

static inline void account_check_empty(const struct account *account) {
    FUZZ_CHECK(account->held_bytes == 0 && account->chunk_count == 0);
}

#endif
