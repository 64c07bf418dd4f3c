/* SPDX-License-Identifier: MIT */
/*
 * See language.h: reads of memory at addresses that may be wrong. The kernel is asked once for each
 * page of a walk; what it allowed is forgotten with the walk, since another thread may unmap it.
 */
#include "shim/language.h"

#include "pools/engine/base/bits.h"

#include <string.h>

static bool is_page_readable(struct ps_language_memory *memory, uintptr_t page) {
    uintptr_t *known = &memory->pages[page / PS_UNWIND_PAGE_BYTES % PS_LANGUAGE_PAGES];
    if (PS_LIKELY(*known == page)) {
        return true;
    }
    if (!ps_unwind_can_read(page)) {
        return false;
    }
    *known = page;
    return true;
}

bool ps_language_can_read(struct ps_language_memory *memory, uintptr_t address, size_t bytes) {
    uintptr_t last = address + bytes - 1;
    uintptr_t page = ps_round_down(address, PS_UNWIND_PAGE_BYTES);
    if (bytes == 0 || last < address || page == 0) {
        return false;
    }
    for (; page <= last; page += PS_UNWIND_PAGE_BYTES) { /* ends: callers read a few pages */
        if (!is_page_readable(memory, page)) {
            return false;
        }
    }
    return true;
}

PS_READS_ANYTHING bool ps_language_read(struct ps_language_memory *memory, uintptr_t address,
                                        void *out, size_t bytes) {
    if (!ps_language_can_read(memory, address, bytes)) {
        return false;
    }
    memcpy(out, (const void *)address, bytes);
    return true;
}
