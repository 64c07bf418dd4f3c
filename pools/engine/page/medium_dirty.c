/* SPDX-License-Identifier: MIT */
/*
 * See medium_dirty.h.
 */
#include "pools/engine/page/medium_dirty.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/page/medium_regions.h"

/* The highest `limit` set bits: the lowest holes are reused first. */
static uint64_t highest_bits(uint64_t bits, size_t limit) {
    for (size_t count = (size_t)__builtin_popcountll(bits); count > limit; count--) {
        bits &= bits - 1;
    }
    return bits;
}

size_t ps_medium_detach_dirty(struct ps_medium_detached *detached, size_t limit) {
    size_t pages = 0;
    ps_lock_acquire(&ps_medium_regions_lock);
    struct ps_medium_region *region = ps_medium_regions_find_dirty();
    if (region != NULL) {
        ps_medium_regions_unlink(region);
        ps_medium_regions_note(&detached->region);
        for (size_t i = PS_PAGE_BIT_WORDS; i-- > 0;) {
            ps_medium_regions_note(&region->free[i]);
            uint64_t bits = highest_bits(region->free[i] & region->dirty[i], limit - pages);
            detached->pages[i] = bits;
            region->free[i] &= ~bits;
            pages += (size_t)__builtin_popcountll(bits);
        }
        region->free_pages = (uint16_t)(region->free_pages - pages);
        region->dirty_free = (uint16_t)(region->dirty_free - pages);
        region->longest = (uint16_t)ps_pages_longest(region->free, PS_PAGE_BITS);
        detached->region = region;
        ps_medium_regions_link(region);
    }
    ps_lock_release(&ps_medium_regions_lock);
    return pages;
}

void ps_medium_attach(struct ps_medium_detached *detached,
                      const uint64_t purged[PS_PAGE_BIT_WORDS]) {
    ps_lock_acquire(&ps_medium_regions_lock);
    struct ps_medium_region *region = detached->region;
    size_t clean = 0;
    size_t dirty = 0;
    ps_medium_regions_unlink(region);
    for (size_t i = 0; i < PS_PAGE_BIT_WORDS; i++) {
        ps_medium_regions_note(&region->free[i]);
        ps_medium_regions_note(&region->dirty[i]);
        region->free[i] |= detached->pages[i];
        uint64_t bits = purged != NULL ? purged[i] : 0;
        region->dirty[i] &= ~bits;
        clean += (size_t)__builtin_popcountll(bits);
        dirty += (size_t)__builtin_popcountll(detached->pages[i] & ~bits);
    }
    region->free_pages = (uint16_t)(region->free_pages + clean + dirty);
    region->dirty_free = (uint16_t)(region->dirty_free + dirty);
    region->is_refused = purged != NULL && dirty != 0;
    region->longest = (uint16_t)ps_pages_longest(region->free, PS_PAGE_BITS);
    ps_medium_regions_note(&detached->region);
    detached->region = NULL;
    ps_medium_regions_link(region);
    ps_lock_release(&ps_medium_regions_lock);
}

bool ps_medium_unstick(void) {
    ps_lock_acquire(&ps_medium_regions_lock);
    struct ps_medium_region *region = ps_medium_regions_find_refused();
    if (region != NULL) {
        ps_medium_regions_unlink(region);
        region->is_refused = 0;
        ps_medium_regions_link(region);
    }
    ps_lock_release(&ps_medium_regions_lock);
    return region != NULL;
}
