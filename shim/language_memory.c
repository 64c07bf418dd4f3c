/* SPDX-License-Identifier: MIT */
/*
 * See language.h: reads of memory at addresses that may be wrong. The kernel is asked once for each
 * page of a walk; what it allowed is forgotten with the walk, since another thread may unmap it.
 */
#include "shim/language.h"

#include "pools/engine/base/bits.h"

static bool can_read_page(struct ps_language_memory *memory, uintptr_t page) {
    if (ps_language_is_known(memory, page)) {
        return true;
    }
    if (!ps_unwind_can_read(page)) {
        return false;
    }
    memory->pages[page / PS_UNWIND_PAGE_BYTES % PS_LANGUAGE_PAGES] = page;
    return true;
}

bool ps_language_can_read(struct ps_language_memory *memory, uintptr_t address, size_t bytes) {
    uintptr_t last = address + bytes - 1;
    uintptr_t first_page = ps_round_down(address, PS_UNWIND_PAGE_BYTES);
    uintptr_t last_page = ps_round_down(last, PS_UNWIND_PAGE_BYTES);
    if (bytes == 0 || bytes > PS_UNWIND_PAGE_BYTES || last < address || first_page == 0) {
        return false;
    }
    return can_read_page(memory, first_page) &&
           (first_page == last_page || can_read_page(memory, last_page));
}
