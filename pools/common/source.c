/* SPDX-License-Identifier: MIT */
/*
 * See source.h. No locks; the account is an atomic.
 */
#include <poolshim/source.h>

#include "pools/engine/base/atomic.h"
#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"

#include <errno.h>
#include <poolshim/pages.h>
#include <stdlib.h>

static void *malloc_alloc(struct ps_source *source, size_t bytes, size_t align) {
    (void)source;
    void *chunk = NULL;
    if (bytes > PTRDIFF_MAX) { /* refused anyway, but memcheck reports the request */
        errno = ENOMEM;
        return NULL;
    }
    int error = posix_memalign(&chunk, ps_max(align, sizeof(void *)), bytes);
    if (error != 0) {
        errno = error;
        return NULL;
    }
    return chunk;
}

static void malloc_free(struct ps_source *source, void *chunk, size_t bytes) {
    (void)source;
    (void)bytes;
    free(chunk);
}

struct ps_source *ps_source_malloc(void) {
    static struct ps_source source = {malloc_alloc, malloc_free};
    return &source;
}

static void *buffer_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct ps_source_buffer *buffer = (struct ps_source_buffer *)source;
    uintptr_t base = (uintptr_t)buffer->base;
    uintptr_t at = ps_round_up(base + buffer->used_bytes, align);
    if (at - base > buffer->bytes || bytes > buffer->bytes - (at - base)) {
        errno = ENOMEM;
        return NULL;
    }
    buffer->used_bytes = at - base + bytes;
    return buffer->base + (at - base);
}

static void buffer_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct ps_source_buffer *buffer = (struct ps_source_buffer *)source;
    if ((char *)chunk + bytes == buffer->base + buffer->used_bytes) {
        buffer->used_bytes -= bytes;
    }
}

void ps_source_buffer_init(struct ps_source_buffer *source, void *buffer, size_t bytes) {
    *source = (struct ps_source_buffer){{buffer_alloc, buffer_free}, buffer, bytes, 0};
}

static void *account_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct ps_source_account *account = (struct ps_source_account *)source;
    /* relaxed, also below: a count; the memory is not published by it. */
    size_t used = ps_add_relaxed(&account->x_used_bytes, bytes) + bytes;
    void *chunk = NULL;
    if (account->limit_bytes == 0 || (used <= account->limit_bytes && used >= bytes)) {
        chunk = account->next == NULL ? ps_pages_alloc(bytes, align)
                                      : account->next->alloc(account->next, bytes, align);
    } else {
        errno = ENOMEM;
    }
    if (chunk == NULL) {
        ps_add_relaxed(&account->x_used_bytes, (size_t)0 - bytes);
    }
    return chunk;
}

static void account_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct ps_source_account *account = (struct ps_source_account *)source;
    ps_add_relaxed(&account->x_used_bytes, (size_t)0 - bytes); /* relaxed: a count */
    if (account->next == NULL) {
        ps_pages_free(chunk, bytes);
    } else {
        account->next->free(account->next, chunk, bytes);
    }
}

void ps_source_account_init(struct ps_source_account *source, struct ps_source *next,
                            size_t limit_bytes) {
    *source = (struct ps_source_account){{account_alloc, account_free}, next, limit_bytes, 0};
}

size_t ps_source_account_used(const struct ps_source_account *source) {
    return ps_load_relaxed(&source->x_used_bytes); /* relaxed: a count */
}
