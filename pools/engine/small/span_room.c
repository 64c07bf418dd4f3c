/* SPDX-License-Identifier: MIT */
/*
 * Usable addresses of a span: see span.h. No locks.
 */
#include "pools/engine/small/span.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_cache.h"

/* Each guarded span may cost two of the 65,530 mappings that a process has by default. */
#define GUARDED_LIMIT 16384

#define SPARSE_BLOCK_BYTES 2048 /* larger classes would have few blocks in a few pages */
#define ONE_PAGE_BLOCK_BYTES 1024

static uint32_t x_guarded;

/* Addresses [begin, end), relative to the run's base. */
struct room {
    size_t begin;
    size_t end;
};

static size_t bytes_of(const struct ps_span *span) {
    return (size_t)span->run.granules << PS_GRANULE_SHIFT;
}

static bool may_guard(void) {
    /* relaxed, both: an approximate bound. */
    if (ps_size_class_guard_bytes == 0) {
        return false;
    }
    if (ps_add_relaxed(&x_guarded, 1u) < GUARDED_LIMIT) {
        return true;
    }
    ps_add_relaxed(&x_guarded, (uint32_t)-1);
    return false;
}

/* A page or two of a granule, excluding its first and last page. Constant for each granule: with a
 * varying choice the pages of earlier spans would remain resident until they are purged. */
static struct room sparse_room(const struct ps_span *span) {
    size_t page_bytes = ps_size_class_guard_bytes;
    size_t wanted = span->block_bytes <= ONE_PAGE_BLOCK_BYTES ? 1 : 2;
    size_t places = PS_GRANULE_BYTES / page_bytes - 1 - wanted;
    size_t begin = (1 + ps_link_random_of(span->run.base) % places) * page_bytes;
    return (struct room){begin, begin + wanted * page_bytes};
}

static bool is_fit_for_sparse(const struct ps_span *span) {
    return span->run.granules == 1 && span->block_bytes <= SPARSE_BLOCK_BYTES;
}

/* Makes a part of a span inaccessible, and drops its memory, which would be resident but unused: a
 * program of short threads had twice the RSS. */
static void leave_out(const struct ps_span *span, char *begin, size_t bytes) {
    if (span->run.is_dirty && bytes > ps_size_class_guard_bytes) {
        (void)ps_os_purge(begin, bytes);
    }
    ps_page_cache_shut(begin, bytes);
}

static enum ps_access wanted_access(const struct ps_span *span, size_t granule) {
    bool is_end = granule + 1 == span->run.granules && span->guard == PS_GUARD_END;
    return is_end ? PS_ACCESS_ALL_BUT_END : PS_ACCESS_ALL;
}

/* Tells whether all granules have the access that this span wants, or all have none. */
static void compare_access(const struct ps_span *span, bool *is_as_wanted, bool *is_shut) {
    *is_as_wanted = true;
    *is_shut = true;
    for (size_t i = 0; i < span->run.granules; i++) {
        const struct ps_slot *slot = ps_page_map_slot(span->run.base + i * PS_GRANULE_BYTES);
        enum ps_access access = slot->run.access;
        *is_as_wanted = *is_as_wanted && access == wanted_access(span, i);
        *is_shut = *is_shut && access == PS_ACCESS_NONE;
    }
}

static bool open_dense(const struct ps_span *span) {
    char *base = span->run.base;
    size_t end = bytes_of(span) - (span->guard == PS_GUARD_END ? ps_size_class_guard_bytes : 0);
    bool is_as_wanted;
    bool is_shut;
    compare_access(span, &is_as_wanted, &is_shut);
    if (is_as_wanted) {
        return true;
    }
    if (!is_shut) {
        ps_page_cache_shut(base + end, bytes_of(span) - end);
    }
    if (!ps_page_cache_open(base, end)) {
        return false;
    }
    for (size_t i = 0; i < span->run.granules; i++) {
        ps_page_cache_set_access(base + i * PS_GRANULE_BYTES, 1, wanted_access(span, i));
    }
    return true;
}

static bool open_sparse(struct ps_span *span) {
    char *base = span->run.base;
    struct room room = sparse_room(span);
    span->guard = PS_GUARD_SPARSE;
    span->first = (uint16_t)((room.begin + span->block_bytes - 1) / span->block_bytes);
    span->limit = (uint16_t)(room.end / span->block_bytes);
    leave_out(span, base, room.begin);
    leave_out(span, base + room.end, bytes_of(span) - room.end);
    return ps_page_cache_open(base + room.begin, room.end - room.begin);
}

bool ps_span_open(struct ps_span *span, bool is_sparse) {
    const struct ps_size_class *class = &ps_size_classes[span->class_index];
    span->first = class->first;
    span->limit = class->limit;
    span->guard = may_guard() ? PS_GUARD_END : PS_GUARD_NONE;
    if (!ps_page_cache_is_shut) {
        return true;
    }
    bool can_be_sparse = is_sparse && span->guard != PS_GUARD_NONE && is_fit_for_sparse(span);
    return can_be_sparse ? open_sparse(span) : open_dense(span);
}

void ps_span_shut(const struct ps_span *span) {
    if (span->guard != PS_GUARD_NONE) {
        ps_add_relaxed(&x_guarded, (uint32_t)-1); /* relaxed: as above */
    }
    if (span->guard == PS_GUARD_SPARSE) {
        ps_page_cache_shut(span->run.base, bytes_of(span));
        ps_page_cache_set_access(span->run.base, span->run.granules, PS_ACCESS_NONE);
    }
}
