/* SPDX-License-Identifier: MIT */
/*
 * See source.h: chunks side by side in one reserved range.
 *
 *   used_bytes <= committed_bytes <= reserved_bytes; [base, base + committed_bytes) is accessible
 *   chunk_count == 0 implies used_bytes == 0
 *
 * No locks: one thread at a time. The mapping is the engine's kind: no access until it is used.
 */
#include <poolshim/source.h>

#include "pools/engine/base/bits.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/os/os.h"

#include <errno.h>

#define STEP_MIN ((size_t)64 << 10)
#define STEP_MAX ((size_t)2 << 20)

/* Makes the first `bytes` accessible: more, if the system gives it, so that the next chunks need no
 * call. */
static bool commit(struct ps_source_reserve *range, size_t bytes) {
    if (bytes <= range->committed_bytes) {
        return true;
    }
    size_t least = ps_round_up(bytes - range->committed_bytes, ps_os_page_bytes());
    size_t step = ps_min(ps_max(range->committed_bytes, STEP_MIN), STEP_MAX);
    size_t wanted = ps_min(ps_max(least, step), range->reserved_bytes - range->committed_bytes);
    char *end = range->base + range->committed_bytes;
    if (ps_os_protect(end, wanted, true)) {
        range->committed_bytes += wanted;
        return true;
    }
    if (wanted == least || !ps_os_protect(end, least, true)) {
        return false;
    }
    range->committed_bytes += least;
    return true;
}

static void *reserve_alloc(struct ps_source *source, size_t bytes, size_t align) {
    struct ps_source_reserve *range = (struct ps_source_reserve *)source;
    uintptr_t base = (uintptr_t)range->base;
    size_t offset = ps_round_up(base + range->used_bytes, ps_max(align, 1)) - base;
    if (offset > range->reserved_bytes || bytes > range->reserved_bytes - offset ||
        !commit(range, offset + bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    range->used_bytes = offset + bytes;
    range->chunk_count++;
    return range->base + offset;
}

/* Drops the memory of the whole pages of [from, to), offsets. */
static void drop(struct ps_source_reserve *range, size_t from, size_t to) {
    size_t page_bytes = ps_os_page_bytes();
    size_t first = ps_round_up(from, page_bytes);
    size_t end = ps_round_down(to, page_bytes);
    if (first < end) {
        (void)ps_os_purge(range->base + first, end - first); /* else the memory remains resident */
    }
}

static void reserve_free(struct ps_source *source, void *chunk, size_t bytes) {
    struct ps_source_reserve *range = (struct ps_source_reserve *)source;
    size_t offset = (size_t)((char *)chunk - range->base);
    size_t end = offset + bytes;
    range->chunk_count--;
    if (end == range->used_bytes) {
        range->used_bytes = offset;
        end = ps_min(ps_round_up(end, ps_os_page_bytes()), range->committed_bytes);
    }
    if (range->chunk_count == 0) {
        range->used_bytes = 0;
        offset = 0; /* what gaps of alignment and older chunks have left */
    }
    drop(range, offset, end);
}

bool ps_source_reserve_init(struct ps_source_reserve *source, size_t max_bytes) {
    *source = (struct ps_source_reserve){.source = {reserve_alloc, reserve_free}};
    if (max_bytes == 0 || max_bytes > PTRDIFF_MAX) {
        errno = EINVAL;
        return false;
    }
    size_t page_bytes = ps_os_page_bytes();
    size_t bytes = ps_round_up(max_bytes, page_bytes);
    source->base = (char *)ps_os_reserve_closed(bytes, page_bytes);
    if (source->base == NULL) {
        errno = ENOMEM;
        return false;
    }
    source->reserved_bytes = bytes;
    return true;
}

void ps_source_reserve_destroy(struct ps_source_reserve *source) {
    if (source->base != NULL && !ps_os_release(source->base, source->reserved_bytes)) {
        (void)ps_os_purge(source->base, source->committed_bytes); /* only the addresses are lost */
    }
    *source = (struct ps_source_reserve){.source = {reserve_alloc, reserve_free}};
}
