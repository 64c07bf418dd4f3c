/* SPDX-License-Identifier: MIT */
/*
 * Lengthening a run in place: first the rest of its last granule, then whole granules from the page
 * cache, then the first pages of one more granule, which is in use by pages or still free. A later
 * failure undoes earlier claims. See depot.h; locks as there.
 */
#include "pools/pages/pages.h"

/* Claims pages of one granule. relaxed: if the granule is in use by pages, its bits tell, under the
 * lock. */
static bool claim(char *pages, size_t count) {
    struct ps_pages_granule *granule = ps_pages_granule_at(pages);
    ps_depot_lock();
    /* acquire: pairs with the division of a run; makes the fields visible. */
    bool is_claimed = ps_load_acquire(&granule->run.kind) == PS_RUN_PAGES &&
                      ps_granule_claim_locked(granule, ps_page_bits(ps_page_index(pages), count));
    ps_depot_unlock();
    return is_claimed;
}

/* Undoes a claim, or frees unneeded pages. */
static void unclaim(char *pages, size_t count, bool is_zero) {
    struct ps_released released = {NULL, NULL};
    uint32_t bits = ps_page_bits(ps_page_index(pages), count);
    ps_depot_lock();
    ps_granule_return_locked(ps_pages_granule_at(pages), bits, is_zero ? 0 : bits, &released);
    ps_depot_unlock();
    ps_granules_release(&released);
}

/* Claims from the boundary of a granule on. The preceding granule is the caller's. */
static bool extend_granules(char *boundary, size_t pages) {
    struct ps_pages_granule *last = ps_pages_granule_at(boundary - 1);
    size_t whole = pages / PS_GRANULE_PAGES;
    size_t tail = pages % PS_GRANULE_PAGES;
    char *tail_pages = boundary + whole * PS_GRANULE_BYTES;
    bool is_zero;
    if (ps_granules_extend(last, whole + (tail != 0), &is_zero)) {
        if (tail != 0) {
            unclaim(tail_pages + tail * PS_PAGE_BYTES, PS_GRANULE_PAGES - tail, is_zero);
        }
        return true;
    }
    if (tail == 0 || !claim(tail_pages, tail)) {
        return false;
    }
    if (whole != 0 && !ps_granules_extend(last, whole, &is_zero)) {
        unclaim(tail_pages, tail, false);
        return false;
    }
    return true;
}

bool ps_depot_extend(char *end, size_t pages) {
    size_t index = ps_page_index(end);
    size_t first = index == 0 ? 0 : ps_min(PS_GRANULE_PAGES - index, pages);
    if (first != 0 && !claim(end, first)) {
        return false;
    }
    bool is_extended =
        first == pages || extend_granules(end + first * PS_PAGE_BYTES, pages - first);
    if (is_extended) {
        ps_depot_count_out(pages);
    } else if (first != 0) {
        unclaim(end, first, false);
    }
    return is_extended;
}
