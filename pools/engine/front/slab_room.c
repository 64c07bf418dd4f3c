/* SPDX-License-Identifier: MIT */
/*
 * See slab_room.h.
 */
#include "pools/engine/front/slab_room.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/front/shadow.h"
#include "pools/engine/os/mte.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_cache.h"

#include <string.h>

/* Each guarded slab may cost two of the 65,530 mappings that a process has by default. */
#define GUARDED_LIMIT 16384

#define SPARSE_BLOCK_BYTES 2048 /* larger classes would have few blocks in a few pages */
#define ONE_PAGE_BLOCK_BYTES 1024

uint32_t ps_slab_sparse_slabs;
static uint32_t x_guarded;

/* Addresses [begin, end), relative to the run's base. */
struct room {
    size_t begin;
    size_t end;
};

static size_t bytes_of(const struct ps_slab *slab) {
    return (size_t)slab->run.granules << PS_GRANULE_SHIFT;
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
 * varying choice the pages of earlier slabs would remain resident until they are purged. */
static struct room sparse_room(const struct ps_slab *slab) {
    size_t page_bytes = ps_size_class_guard_bytes;
    size_t wanted = ps_slab_class(slab)->block_bytes <= ONE_PAGE_BLOCK_BYTES ? 1 : 2;
    size_t places = PS_GRANULE_BYTES / page_bytes - 1 - wanted;
    size_t begin = (1 + ps_mark_random_of(slab->run.base) % places) * page_bytes;
    return (struct room){begin, begin + wanted * page_bytes};
}

static bool is_fit_for_sparse(const struct ps_slab *slab) {
    return slab->run.granules == 1 && ps_slab_class(slab)->block_bytes <= SPARSE_BLOCK_BYTES;
}

/* Makes a part of a slab inaccessible, and drops its memory, which would be resident but unused: a
 * program of short threads had twice the RSS. */
static void leave_out(const struct ps_slab *slab, char *begin, size_t bytes) {
    if (slab->run.is_dirty && bytes > ps_size_class_guard_bytes) {
        (void)ps_os_purge(begin, bytes);
    }
    ps_page_cache_shut(begin, bytes);
}

static enum ps_access wanted_access(const struct ps_slab *slab, size_t granule) {
    bool is_end = granule + 1 == slab->run.granules && slab->guard == PS_SLAB_GUARDED_END;
    return is_end ? PS_ACCESS_ALL_BUT_END : PS_ACCESS_ALL;
}

/* Tells whether all granules have the access that this slab wants, or all have none. */
static void compare_access(const struct ps_slab *slab, bool *is_as_wanted, bool *is_shut) {
    *is_as_wanted = true;
    *is_shut = true;
    for (size_t i = 0; i < slab->run.granules; i++) {
        const struct ps_slot *slot = ps_page_map_slot(slab->run.base + i * PS_GRANULE_BYTES);
        enum ps_access access = slot->run.access;
        *is_as_wanted = *is_as_wanted && access == wanted_access(slab, i);
        *is_shut = *is_shut && access == PS_ACCESS_NONE;
    }
}

static bool open_dense(const struct ps_slab *slab) {
    char *base = slab->run.base;
    size_t end =
        bytes_of(slab) - (slab->guard == PS_SLAB_GUARDED_END ? ps_size_class_guard_bytes : 0);
    bool is_as_wanted;
    bool is_shut;
    compare_access(slab, &is_as_wanted, &is_shut);
    if (is_as_wanted) {
        return true;
    }
    if (!is_shut) {
        ps_page_cache_shut(base + end, bytes_of(slab) - end);
    }
    if (!ps_page_cache_open(base, end)) {
        return false;
    }
    for (size_t i = 0; i < slab->run.granules; i++) {
        ps_page_cache_set_access(base + i * PS_GRANULE_BYTES, 1, wanted_access(slab, i));
    }
    return true;
}

static bool open_sparse(struct ps_slab *slab) {
    char *base = slab->run.base;
    size_t block_bytes = ps_slab_class(slab)->block_bytes;
    struct room room = sparse_room(slab);
    slab->guard = PS_SLAB_SPARSE;
    slab->fresh = (uint16_t)((room.begin + block_bytes - 1) / block_bytes);
    slab->capacity = (uint16_t)(room.end / block_bytes - slab->fresh);
    leave_out(slab, base, room.begin);
    leave_out(slab, base + room.end, bytes_of(slab) - room.end);
    return ps_page_cache_open(base + room.begin, room.end - room.begin);
}

/* The shadow bytes of other slabs in this memory may be left. Blocks with memory tags have none. */
static bool clear_shadow(const struct ps_slab *slab) {
    for (size_t i = 0; i < slab->run.granules && !ps_mte_is_on(); i++) {
        uint8_t *marks = ps_shadow_make_at(slab->run.base + i * PS_GRANULE_BYTES);
        if (marks == NULL) {
            return false;
        }
        memset(marks, 0, PS_GRANULE_BYTES >> PS_SHADOW_SHIFT);
    }
    return true;
}

static bool open_guarded(struct ps_slab *slab, bool is_sparse) {
    slab->guard = may_guard() ? PS_SLAB_GUARDED_END : PS_SLAB_UNGUARDED;
    bool can_be_sparse = is_sparse && slab->guard != PS_SLAB_UNGUARDED && is_fit_for_sparse(slab);
    return clear_shadow(slab) && (can_be_sparse ? open_sparse(slab) : open_dense(slab));
}

bool ps_slab_open(struct ps_slab *slab, bool is_sparse) {
    slab->fresh = ps_slab_class(slab)->first;
    slab->capacity = (uint16_t)ps_class_capacity(slab->class_index);
    slab->guard = PS_SLAB_UNGUARDED;
    return PS_LIKELY(!ps_page_cache_is_shut) || open_guarded(slab, is_sparse);
}

/* The pages of blocks that were used have their tags; those that were purged have none. */
static void clear_tags(const struct ps_slab *slab) {
    size_t page_bytes = ps_os_page_bytes();
    bool was_used = slab->fresh > ps_slab_class(slab)->first;
    size_t used_bytes = was_used ? slab->fresh * (size_t)ps_slab_class(slab)->block_bytes : 0;
    for (size_t page = 0; page * page_bytes < used_bytes; page++) {
        bool is_purged = slab->purged_pages != 0 && (slab->purged_pages >> page & 1) != 0;
        if (!is_purged) { /* a longer slab than 16 pages has no purged ones */
            ps_mte_fill(slab->run.base + page * page_bytes, page_bytes);
        }
    }
}

void ps_slab_shut(const struct ps_slab *slab) {
    if (ps_mte_is_on()) {
        clear_tags(slab);
    }
    if (slab->guard != PS_SLAB_UNGUARDED) {
        ps_add_relaxed(&x_guarded, (uint32_t)-1); /* relaxed: as above */
    }
    if (slab->guard == PS_SLAB_SPARSE) {
        ps_page_cache_shut(slab->run.base, bytes_of(slab));
        ps_page_cache_set_access(slab->run.base, slab->run.granules, PS_ACCESS_NONE);
    }
}
