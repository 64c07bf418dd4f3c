/* SPDX-License-Identifier: MIT */
/*
 * See poolshim/pages.h. Every call tries the thread's magazine first; the rest is magazine.c
 * and depot.c. Also compiled into libpoolshim.so: see pages.h. No locks of its own.
 */
#include <poolshim/pages.h>

#include "pools/common/poison.h"
#include "pools/engine/base/compiler.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/engine/page/watch.h"
#include "pools/pages/magazine.h"
#include "pools/pages/pages.h"

#include <string.h>

static size_t whole_pages(size_t bytes) { return ps_round_up(ps_max(bytes, 1), PS_PAGE_BYTES); }

static PS_COLD void tell_taken(uintptr_t place, size_t bytes) {
    if (ps_place_pages(place) != NULL) {
        ps_watch_now()->pages_taken(ps_place_pages(place), whole_pages(bytes));
    }
}

PS_INLINE uintptr_t take_any(size_t bytes, size_t align) {
    uintptr_t place;
    if (PS_LIKELY(ps_magazine_has_length(bytes) && align <= PS_PAGE_BYTES &&
                  (align & (align - 1)) == 0 && ps_magazine_pop(ps_magazine, bytes, &place))) {
        return place;
    }
    return ps_magazine_take_slow(bytes, align);
}

PS_INLINE uintptr_t take(size_t bytes, size_t align) {
    uintptr_t place = take_any(bytes, align);
    if (PS_UNLIKELY(ps_watch_now() != NULL)) {
        tell_taken(place, bytes);
    }
    return place;
}

void *ps_pages_alloc(size_t bytes, size_t align) { return ps_place_pages(take(bytes, align)); }

void *ps_pages_zalloc(size_t bytes, size_t align) {
    uintptr_t place = take(bytes, align);
    char *pages = ps_place_pages(place);
    if (pages == NULL) {
        return NULL;
    }
    if ((place & PS_PLACE_ZERO) != 0) {
        ps_unpoison_defined(pages, whole_pages(bytes));
        return pages;
    }
    return memset(pages, 0, whole_pages(bytes));
}

void ps_pages_free(void *pages, size_t bytes) {
    if (PS_UNLIKELY(ps_watch_now() != NULL)) {
        ps_watch_now()->pages_freed(pages);
    }
    if (PS_CHECKED && pages != NULL) {
        ps_depot_check(pages, whole_pages(bytes) / PS_PAGE_BYTES);
    }
    if (PS_LIKELY(ps_magazine_has_length(bytes) && pages != NULL &&
                  ((uintptr_t)pages & (ps_magazine_align(bytes) - 1)) == 0 &&
                  ps_magazine_push(ps_magazine, (uintptr_t)pages, bytes))) {
        return;
    }
    ps_magazine_give_slow(pages, bytes);
}

bool ps_pages_extend(void *pages, size_t old_bytes, size_t new_bytes) {
    if (new_bytes > PTRDIFF_MAX) {
        return false;
    }
    size_t old_length = whole_pages(old_bytes);
    size_t new_length = whole_pages(new_bytes);
    if (new_length <= old_length) {
        return true;
    }
    char *end = (char *)pages + old_length;
    bool is_extended = ps_depot_extend(end, (new_length - old_length) / PS_PAGE_BYTES);
    if (is_extended) {
        ps_unpoison(end, new_length - old_length);
    }
    return is_extended;
}

void ps_pages_magazine_limit(size_t bytes) {
    /* relaxed: threads may see it late. */
    ps_store_relaxed(&ps_x_magazine_limit, ps_min(bytes, PTRDIFF_MAX / 2));
}

void ps_pages_cache_limit(size_t bytes) {
    ps_store_relaxed(&ps_granules_x_limit, bytes); /* relaxed: threads may see it late */
    if (bytes != SIZE_MAX) {
        ps_pages_start();
        (void)ps_purge_all(bytes);
    }
}

static bool purge(size_t keep_bytes) {
    ps_pages_start();
    ps_magazine_flush();
    bool has_purged = ps_depot_decay(ps_os_now_ms(), true);
    return ps_purge_all(keep_bytes) || has_purged;
}

bool ps_pages_trim(size_t keep_bytes) { return purge(keep_bytes); }

size_t ps_pages_trim_to(size_t keep_bytes) {
    struct ps_pages_stats before;
    struct ps_pages_stats after;
    ps_pages_start();
    ps_magazine_flush();
    ps_pages_stats(&before);
    (void)purge(keep_bytes);
    ps_pages_stats(&after);
    return before.dirty_bytes - ps_min(after.dirty_bytes, before.dirty_bytes);
}

void ps_pages_stats(struct ps_pages_stats *stats) {
    struct ps_page_counts cache;
    struct ps_depot_counts depot;
    ps_pages_start();
    ps_page_cache_count(&cache);
    ps_depot_count(&depot);
    size_t all_magazines = ps_magazine_all_bytes();
    bool has_magazine = ps_magazine->x_bytes != PTRDIFF_MAX;
    *stats = (struct ps_pages_stats){
        .used_bytes = depot.out_bytes - ps_min(all_magazines, depot.out_bytes),
        .magazine_bytes = has_magazine ? ps_magazine->x_bytes : 0,
        .dirty_bytes = (size_t)(cache.dirty_granules << PS_GRANULE_SHIFT) + depot.dirty_bytes,
        .reserved_bytes = (size_t)(cache.arena_granules << PS_GRANULE_SHIFT) + depot.mapped_bytes,
    };
}

void ps_pages_fork_child(void) {
    ps_depot_fork_child();
    ps_magazine_fork_child();
}

void ps_pages_fork_salvage(void) {
    ps_depot_fork_salvage();
    ps_magazine_fork_salvage();
}
