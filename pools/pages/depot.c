/* SPDX-License-Identifier: MIT */
/*
 * See depot.h. Lock: depot_lock, protects the lists and the bitmaps of all granules; innermost, and
 * released before system calls.
 */
#include "pools/pages/depot.h"

#include "pools/engine/os/fatal.h"
#include "pools/engine/os/lock.h"
#include "pools/pages/pages.h"

/* Most words noted between two commits: a granule moves to another list, and a victim. */
#define UNDO_WORDS 20

PS_UNDO_LOG(depot_undo, UNDO_WORDS);
static struct ps_lock depot_lock = PS_LOCK_INIT_UNDO(PS_RANK_DEPOT, &depot_undo);
static struct ps_run *lists[PS_ORDERS - 1]; /* granules by their longest free block */
static size_t dirty_pages;                  /* free and not zero, in all granules */
static size_t x_out_bytes;

void ps_depot_lock(void) { ps_lock_acquire(&depot_lock); }

void ps_depot_unlock(void) { ps_lock_release(&depot_lock); }

void ps_depot_note(const void *at, size_t bytes) { ps_undo_note(&depot_undo, at, bytes); }

void ps_depot_commit(void) { ps_lock_commit(&depot_lock); }

static struct ps_pages_granule *granule_of(struct ps_run *run) {
    return (struct ps_pages_granule *)ps_slot_of_run(run);
}

void ps_depot_count_out(size_t pages) {
    ps_add_relaxed(&x_out_bytes, pages << PS_PAGE_SHIFT); /* relaxed: a count */
}

static void unlink_locked(struct ps_pages_granule *granule) {
    struct ps_run *run = &granule->run;
    struct ps_run **link = run->prev != NULL ? &run->prev->next : &lists[granule->order];
    PS_UNDO_NOTE(&depot_undo, *link);
    *link = run->next;
    if (run->next != NULL) {
        PS_UNDO_NOTE(&depot_undo, run->next->prev);
        run->next->prev = run->prev;
    }
    granule->order = PS_ORDER_NONE;
}

static void link_locked(struct ps_pages_granule *granule, unsigned order) {
    struct ps_run *run = &granule->run;
    granule->order = (uint8_t)order;
    PS_UNDO_NOTE(&depot_undo, run->prev);
    PS_UNDO_NOTE(&depot_undo, run->next);
    PS_UNDO_NOTE(&depot_undo, lists[order]);
    run->prev = NULL;
    run->next = lists[order];
    if (run->next != NULL) {
        PS_UNDO_NOTE(&depot_undo, run->next->prev);
        run->next->prev = run;
    }
    lists[order] = run;
}

static void set_free_locked(struct ps_pages_granule *granule, uint32_t free, uint32_t dirty) {
    unsigned order = ps_free_order(free);
    PS_UNDO_NOTE(&depot_undo, granule->x_free); /* with the other fields of that word */
    PS_UNDO_NOTE(&depot_undo, dirty_pages);
    dirty_pages += (size_t)__builtin_popcount(dirty) - (size_t)__builtin_popcount(granule->x_dirty);
    /* relaxed: read without the lock only by the holder of all pages, while no thread writes. */
    ps_store_relaxed(&granule->x_free, (uint16_t)free);
    granule->x_dirty = (uint16_t)dirty;
    granule->seen_idle = 0;
    if (order != granule->order) {
        if (granule->order != PS_ORDER_NONE) {
            unlink_locked(granule);
        }
        if (order != PS_ORDER_NONE) {
            link_locked(granule, order);
        }
    }
}

bool ps_granule_claim_locked(struct ps_pages_granule *granule, uint32_t bits) {
    if ((granule->x_free & bits) != bits) {
        return false;
    }
    set_free_locked(granule, granule->x_free & ~bits, granule->x_dirty & ~bits);
    return true;
}

void ps_granule_return_locked(struct ps_pages_granule *granule, uint32_t bits, uint32_t dirty,
                              struct ps_released *released) {
    uint32_t free = granule->x_free | bits;
    dirty |= granule->x_dirty;
    if (free != PS_ALL_PAGES) {
        set_free_locked(granule, free, dirty);
        return;
    }
    /* From here on all pages belong to the caller, which returns them to the page cache. */
    set_free_locked(granule, 0, 0);
    struct ps_run **list = dirty != 0 ? &released->dirty : &released->zero;
    PS_UNDO_NOTE(&depot_undo, granule->run.next);
    granule->run.next = *list;
    *list = &granule->run;
}

/* Takes runs from one granule, lowest pages first. */
static size_t carve_locked(struct ps_pages_granule *granule, size_t pages, unsigned order,
                           size_t count, uintptr_t *places) {
    uint32_t free = granule->x_free;
    uint32_t taken = 0;
    size_t got = 0;
    for (; got < count && ps_free_order(free) != PS_ORDER_NONE && ps_free_order(free) >= order;
         got++) {
        size_t index = ps_free_place(free, order);
        uint32_t bits = ps_page_bits(index, pages);
        uintptr_t is_zero = (granule->x_dirty & bits) == 0 ? PS_PLACE_ZERO : 0;
        places[got] = (uintptr_t)(granule->run.base + index * PS_PAGE_BYTES) | is_zero;
        free &= ~bits;
        taken |= bits;
    }
    (void)ps_granule_claim_locked(granule, taken);
    return got;
}

/* Takes runs at multiples of 2^order pages, from the granule with the shortest sufficient free
 * block. */
static size_t take_shared(size_t pages, unsigned order, size_t count, uintptr_t *places) {
    size_t got = 0;
    ps_lock_acquire(&depot_lock);
    for (unsigned longest = order; longest < PS_ORDERS - 1; longest++) {
        if (lists[longest] != NULL) {
            got = carve_locked(granule_of(lists[longest]), pages, order, count, places);
            break;
        }
    }
    ps_lock_release(&depot_lock);
    return got;
}

/* Makes the pages after the first `pages` of the granules from `base` on free for others. */
static void cut(char *base, size_t pages, bool is_zero) {
    size_t used = pages % PS_GRANULE_PAGES;
    if (used != 0) {
        char *last = base + (pages - used) * PS_PAGE_BYTES;
        uint32_t bits = ps_page_bits(used, PS_GRANULE_PAGES - used);
        struct ps_released released = {NULL, NULL}; /* always empty: pages are allocated */
        ps_lock_acquire(&depot_lock);
        ps_granule_return_locked(ps_pages_granule_at(last), bits, is_zero ? 0 : bits, &released);
        ps_lock_release(&depot_lock);
    }
}

static uintptr_t take_fresh(size_t pages, size_t align_granules) {
    bool is_zero;
    size_t granules = (pages + PS_GRANULE_PAGES - 1) / PS_GRANULE_PAGES;
    char *base = ps_granules_take(granules, align_granules, &is_zero);
    if (base == NULL) {
        return 0;
    }
    cut(base, pages, is_zero);
    return (uintptr_t)base | (is_zero ? PS_PLACE_ZERO : 0);
}

size_t ps_depot_take(size_t pages, size_t count, uintptr_t *places) {
    size_t got = take_shared(pages, ps_order_of(pages), count, places);
    if (got == 0) {
        places[0] = take_fresh(pages, 1);
        got = places[0] != 0;
        if (got != 0 && count > 1) {
            got += take_shared(pages, ps_order_of(pages), count - 1, places + 1);
        }
    }
    ps_depot_count_out(got * pages);
    return got;
}

uintptr_t ps_depot_take_one(size_t pages, size_t align) {
    size_t align_pages = ps_max(align >> PS_PAGE_SHIFT, 1);
    uintptr_t place = 0;
    size_t got = 0;
    if (pages < PS_GRANULE_PAGES && align_pages < PS_GRANULE_PAGES) {
        got = take_shared(pages, ps_order_of(ps_max(pages, align_pages)), 1, &place);
    }
    if (got == 0) {
        place = take_fresh(pages, ps_max(align >> PS_GRANULE_SHIFT, 1));
    }
    ps_depot_count_out(place != 0 ? pages : 0);
    return place;
}

/* The slot of returned pages. Aborts when they are not allocated. With the lock, or all pages
 * ours. */
static struct ps_pages_granule *granule_coming_back(const char *pages, uint32_t bits) {
    struct ps_pages_granule *granule = ps_pages_granule_at(pages);
    /* relaxed, both: neither is changed while pages are allocated. */
    if (PS_UNLIKELY(ps_load_relaxed(&granule->run.kind) != PS_RUN_PAGES)) {
        ps_fatal_address("free of pages that are not allocated", pages);
    }
    if (PS_UNLIKELY((ps_load_relaxed(&granule->x_free) & bits) != 0)) {
        ps_fatal_address("double free of pages", pages);
    }
    return granule;
}

static void return_one_locked(uintptr_t place, size_t pages, struct ps_released *released) {
    const char *base = ps_place_pages(place);
    uint32_t bits = ps_page_bits(ps_page_index(base), pages);
    uint32_t dirty = (place & PS_PLACE_ZERO) != 0 ? 0 : bits;
    ps_granule_return_locked(granule_coming_back(base, bits), bits, dirty, released);
}

void ps_depot_give(const uintptr_t *places, size_t count, size_t pages) {
    struct ps_released released = {NULL, NULL};
    ps_depot_count_out((size_t)0 - count * pages);
    ps_lock_acquire(&depot_lock);
    for (size_t i = 0; i < count; i++) {
        return_one_locked(places[i], pages, &released);
        ps_depot_commit();
    }
    ps_lock_release(&depot_lock);
    ps_granules_release(&released);
}

void ps_depot_give_one(uintptr_t place, size_t pages) {
    uintptr_t zero = place & PS_PLACE_ZERO;
    struct ps_released released = {NULL, NULL};
    ps_depot_count_out((size_t)0 - pages);
    while (pages > 0) { /* at most three rounds: head, whole granules, tail */
        char *base = ps_place_pages(place);
        size_t index = ps_page_index(base);
        size_t step = pages / PS_GRANULE_PAGES * PS_GRANULE_PAGES;
        if (index == 0 && step != 0) {
            ps_granules_give(base, step / PS_GRANULE_PAGES, zero != 0);
        } else {
            step = ps_min(PS_GRANULE_PAGES - index, pages);
            ps_lock_acquire(&depot_lock);
            return_one_locked(place, step, &released);
            ps_lock_release(&depot_lock);
        }
        place += step * PS_PAGE_BYTES;
        pages -= step;
    }
    ps_granules_release(&released);
}

void ps_depot_check(const char *base, size_t pages) {
    for (size_t done = 0; done < pages;) { /* a granule at a time */
        const char *at = base + done * PS_PAGE_BYTES;
        size_t index = ps_page_index(at);
        size_t step = ps_min(PS_GRANULE_PAGES - index, pages - done);
        (void)granule_coming_back(at, ps_page_bits(index, step));
        done += step;
    }
}

void ps_granules_walk_locked(bool (*visit)(struct ps_pages_granule *granule, void *context),
                             void *context) {
    for (size_t order = 0; order < PS_ORDERS - 1; order++) {
        struct ps_run *next;
        for (struct ps_run *run = lists[order]; run != NULL; run = next) {
            next = run->next;
            if (!visit(granule_of(run), context)) {
                return;
            }
        }
    }
}

void ps_depot_count(struct ps_depot_counts *out) {
    ps_lock_acquire(&depot_lock);
    out->dirty_bytes = dirty_pages << PS_PAGE_SHIFT;
    ps_lock_release(&depot_lock);
    out->out_bytes = ps_load_relaxed(&x_out_bytes); /* relaxed: a count */
    out->mapped_bytes = ps_granules_mapped_bytes();
}

void ps_depot_fork_child(void) { ps_lock_fork_child(&depot_lock); }

void ps_depot_fork_salvage(void) { ps_decay_salvage(); }
