/* SPDX-License-Identifier: MIT */
/*
 * Whole slices on their way between the page cache and the depot, and mappings for runs that are
 * longer than the page cache has. Holds no lock of its own: what it writes is in slots of slices
 * that only the caller has. Callers: depot.c, extend.c, decay.c.
 */
#include "pools/engine/os/fatal.h"
#include "pools/engine/os/os.h"
#include "pools/engine/page/access.h"
#include "pools/engine/page/page_cache.h"
#include "pools/engine/page/purge.h"
#include "pools/pages/pages.h"

/* Chunks this long are filled sooner or later: huge pages. Longer than the other, they are cut from
 * ordinary pages, as the program may reserve them for their addresses. */
#define DENSE_SLICES_LEAST ((size_t)32)  /* 2 MiB */
#define DENSE_SLICES_MOST ((size_t)4096) /* 256 MiB */

static size_t x_mapped_bytes;

static void set_kind(struct ps_run *run, enum ps_run_kind kind) {
    /* release: pairs with walks over all slots, and with reads of a neighbour's. */
    ps_store_release(&run->kind, (uint8_t)kind);
}

static struct ps_run *run_at(const char *base) { return &ps_page_map_slot(base)->run; }

/* Makes the slices of a busy run, from the given one on, PS_RUN_PAGES with all pages out. */
static void divide(const struct ps_run *run, size_t from, size_t slices, bool is_mapping) {
    char *base = run->base;
    bool is_huge = run->is_huge;
    for (size_t i = from; i < slices; i++) {
        struct ps_pages_slice *slice = ps_pages_slice_at(base + (i << PS_SLICE_SHIFT));
        /* relaxed, all three: they are not used before the kind is set. */
        ps_store_relaxed(&slice->x_free, (uint16_t)0);
        ps_store_relaxed(&slice->run.slices, 1u);
        ps_store_relaxed(&slice->run.back, (uint16_t)0);
        slice->x_dirty = 0;
        slice->order = PS_ORDER_NONE;
        slice->seen_idle = 0;
        slice->is_mapping = is_mapping;
        slice->run.base = base + (i << PS_SLICE_SHIFT);
        slice->run.is_huge = is_huge & 1;
        set_kind(&slice->run, PS_RUN_PAGES);
    }
}

static struct ps_run *map(size_t slices, size_t align_slices) {
    size_t bytes = slices << PS_SLICE_SHIFT;
    char *base = ps_os_reserve(bytes, align_slices << PS_SLICE_SHIFT);
    if (base == NULL) {
        return NULL;
    }
    struct ps_run *run = ps_page_cache_adopt(base, slices);
    if (run == NULL) {
        ps_os_release(base, bytes);
        return NULL;
    }
    ps_add_relaxed(&x_mapped_bytes, bytes); /* relaxed: a count */
    return run;
}

char *ps_slices_take(size_t slices, size_t align_slices, bool *is_zero) {
    bool is_mapping = slices + align_slices - 1 > PS_RUN_SLICES_LIMIT;
    bool is_dense =
        align_slices == 1 && slices >= DENSE_SLICES_LEAST && slices <= DENSE_SLICES_MOST;
    struct ps_run *run = is_mapping ? map(slices, align_slices)
                         : is_dense ? ps_page_cache_take_dense(slices)
                                    : ps_page_cache_take(slices, align_slices);
    if (run != NULL && !ps_page_cache_open(run->base, slices << PS_SLICE_SHIFT)) {
        ps_page_cache_give(run);
        run = NULL;
    }
    if (run == NULL) {
        return NULL;
    }
    *is_zero = !run->is_dirty;
    char *base = run->base;
    divide(run, 0, slices, is_mapping);
    return base;
}

bool ps_slices_extend(struct ps_pages_slice *last, size_t slices, bool *is_zero) {
    bool can_extend = ps_page_cache_extend(&last->run, 1 + slices, is_zero);
    char *added = last->run.base + PS_SLICE_BYTES;
    if (can_extend && !ps_page_cache_open(added, slices << PS_SLICE_SHIFT)) {
        ps_page_cache_shrink(&last->run, 1);
        can_extend = false;
    }
    if (can_extend) {
        divide(&last->run, 1, 1 + slices, false);
        ps_store_relaxed(&last->run.slices, 1u); /* relaxed: a walk may step by either */
    }
    return can_extend;
}

size_t ps_slices_mapped_bytes(void) {
    return ps_load_relaxed(&x_mapped_bytes); /* relaxed: a count */
}

/* Unmaps; what the system will not unmap becomes part of the page cache. */
static void unmap(char *base, size_t slices) {
    size_t bytes = slices << PS_SLICE_SHIFT;
    ps_add_relaxed(&x_mapped_bytes, (size_t)0 - bytes); /* relaxed: a count */
    if (ps_os_release(base, bytes)) {
        ps_purge_count(bytes);
        return;
    }
    while (slices > 0) {
        size_t part = ps_min(slices, PS_RUN_SLICES_LIMIT);
        struct ps_run *run = ps_page_cache_adopt(base, part);
        if (run != NULL) { /* always: its slots have been there before */
            ps_page_cache_give(run);
        }
        base += part << PS_SLICE_SHIFT;
        slices -= part;
    }
}

void ps_slices_give(char *base, size_t slices, bool is_zero) {
    ps_depot_check(base, slices * PS_SLICE_PAGES);
    bool is_mapping = ps_pages_slice_at(base)->is_mapping;
    for (size_t i = slices; i-- > 0;) {
        set_kind(run_at(base + (i << PS_SLICE_SHIFT)),
                 i == 0 && !is_mapping ? PS_RUN_BUSY : PS_RUN_NONE);
    }
    if (is_mapping) {
        unmap(base, slices);
        return;
    }
    struct ps_run *run = run_at(base);
    ps_store_relaxed(&run->slices, (uint32_t)slices); /* relaxed: a walk may step by either */
    if (is_zero) {
        ps_page_cache_give_zero(run);
    } else {
        ps_page_cache_give(run);
    }
}

static void release_list(struct ps_run *list, bool is_zero) {
    while (list != NULL) {
        struct ps_run *next = list->next;
        ps_slices_give(list->base, 1, is_zero);
        list = next;
    }
}

void ps_slices_release(const struct ps_released *released) {
    release_list(released->dirty, false);
    release_list(released->zero, true);
}
