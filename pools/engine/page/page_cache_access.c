/* SPDX-License-Identifier: MIT */
/*
 * Access to the pages of runs, for hardening level 2 and above: see page_cache.h. No locks.
 */
#include "pools/engine/page/page_cache.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"

bool ps_page_cache_is_shut;

void ps_page_cache_set_access(char *base, size_t granules, enum ps_access access) {
    for (size_t i = 0; i < granules; i++) {
        ps_page_map_slot(base + (i << PS_GRANULE_SHIFT))->run.access = access & 3;
    }
}

bool ps_page_cache_open(char *base, size_t bytes) {
    if (!ps_page_cache_is_shut) {
        return true;
    }
    char *granule = (char *)ps_round_down((uintptr_t)base, PS_GRANULE_BYTES);
    size_t granules = ((size_t)(base - granule) + bytes + PS_GRANULE_BYTES - 1) >> PS_GRANULE_SHIFT;
    ps_page_cache_set_access(granule, granules, PS_ACCESS_UNKNOWN);
    return ps_os_protect(base, bytes, true);
}

void ps_page_cache_shut(char *base, size_t bytes) {
    if (ps_page_cache_is_shut && bytes != 0) {
        (void)ps_os_protect(base, bytes, false); /* refused: still accessible */
    }
}
