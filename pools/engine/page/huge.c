/* SPDX-License-Identifier: MIT */
/*
 * See huge.h. The policy is constant after the start.
 */
#include "pools/engine/page/huge.h"

#include "pools/engine/base/bits.h"

static enum ps_huge policy;

void ps_huge_start(enum ps_huge wanted) { policy = wanted; }

bool ps_huge_is_wanted(bool is_dense) {
    return policy == PS_HUGE_THP || (policy == PS_HUGE_AUTO && is_dense);
}

void ps_huge_advise(char *base, size_t bytes, bool is_dense) {
    bool is_wanted = ps_huge_is_wanted(is_dense);
    if (!is_wanted || ps_retention_is_usual()) { /* otherwise the default of the system */
        ps_os_advise_huge(base, bytes, is_wanted);
    }
}

void ps_huge_advise_mapping(char *base, size_t bytes) {
    if (policy == PS_HUGE_OFF) {
        ps_huge_refuse(base, bytes);
    }
}

void ps_huge_keep_holes(char *base, size_t granules) {
    if (policy == PS_HUGE_OFF) {
        return;
    }
    uintptr_t begin = (uintptr_t)base;
    uintptr_t end = begin + (granules << PS_GRANULE_SHIFT);
    uintptr_t first = ps_round_down(begin, PS_HUGE_PAGE_BYTES);
    uintptr_t last = ps_round_down(end, PS_HUGE_PAGE_BYTES);
    if (first != begin) {
        ps_os_advise_huge((char *)first, PS_HUGE_PAGE_BYTES, false);
        first += PS_HUGE_PAGE_BYTES;
    }
    if (first < last) { /* empty: the next touch may allocate a whole one, if memory allows */
        ps_os_advise_huge((char *)first, last - first, ps_retention_is_usual());
    }
    if (last != end && last >= first) {
        ps_os_advise_huge((char *)last, PS_HUGE_PAGE_BYTES, false);
    }
}

/* Lets a huge page become whole, if a clean run fills it. */
static void join(uintptr_t page, uintptr_t clean_begin, uintptr_t clean_end) {
    if (page >= clean_begin && page + PS_HUGE_PAGE_BYTES <= clean_end) {
        ps_os_advise_huge((char *)page, PS_HUGE_PAGE_BYTES, true);
    }
}

void ps_huge_join_holes(char *base, size_t granules, char *clean_base, size_t clean_granules) {
    uintptr_t begin = (uintptr_t)base;
    uintptr_t end = begin + (granules << PS_GRANULE_SHIFT);
    uintptr_t clean_end = (uintptr_t)clean_base + (clean_granules << PS_GRANULE_SHIFT);
    uintptr_t first = ps_round_down(begin, PS_HUGE_PAGE_BYTES);
    uintptr_t last = ps_round_down(end, PS_HUGE_PAGE_BYTES);
    if (policy == PS_HUGE_OFF || !ps_retention_is_usual()) {
        return;
    }
    if (first != begin || last == first) {
        join(first, (uintptr_t)clean_base, clean_end);
    }
    if (last != end && last != first) {
        join(last, (uintptr_t)clean_base, clean_end);
    }
}
