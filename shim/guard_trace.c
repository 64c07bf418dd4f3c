/* SPDX-License-Identifier: MIT */
/*
 * See guard_trace.h; and the engine's hooks of pools/engine/harden/guard.h, for guarded samples.
 */
#include "shim/guard_trace.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/harden/guard.h"
#include "pools/engine/harden/tagged.h"
#include "pools/engine/os/mte.h"
#include "pools/engine/profile/profile.h"
#include "pools/engine/record/trace.h"
#include "shim/loader.h"

#include <link.h>
#include <string.h>

#define SKIPPED_LIMIT                                                                              \
    32 /* frames of this library and of the program's handlers, above the wanted */

#define PATH_BYTES 256 /* of a name that is no text of a file */

static uintptr_t own_code; /* this library's code; written by the constructor */
static size_t own_code_bytes;
static uint32_t x_can_trace;

static bool is_own(uintptr_t address) { return address - own_code < own_code_bytes; }

/* A search for the part of a loaded object that an address lies in. */
struct search {
    uintptr_t address;
    uintptr_t begin;
    size_t bytes;
    uintptr_t base; /* of the object: what the addresses in its file are relative to */
};

PS_AT_START static int look_at(struct dl_phdr_info *info, size_t info_bytes, void *context) {
    (void)info_bytes;
    struct search *search = context;
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        uintptr_t begin = info->dlpi_addr + part->p_vaddr;
        if (part->p_type == PT_LOAD && search->address - begin < part->p_memsz) {
            search->begin = begin;
            search->bytes = part->p_memsz;
            search->base = info->dlpi_addr;
            return 1;
        }
    }
    return 0;
}

__attribute__((constructor(103))) PS_AT_START static void library_loaded(void) {
    /* On demand, at any time. relaxed: whether it is 0 does not change after the start. */
    bool may_profile = ps_load_relaxed(&ps_profile_settings.x_interval_bytes) != 0;
    if (ps_guard_period != 0 || ps_mte_is_on() || may_profile || ps_trace_is_on()) {
        ps_unwind_start();
        if (!ps_loader_own_code(&own_code, &own_code_bytes)) {
            struct search search = {.address = (uintptr_t)look_at};
            (void)dl_iterate_phdr(look_at, &search);
            own_code = search.begin;
            own_code_bytes = search.bytes;
        }
        ps_guard_watch();
        ps_tagged_watch();
        ps_store_release(&x_can_trace, 1u); /* release: pairs with ps_trace_is_ready */
    }
}

bool ps_trace_is_ready(void) {
    return ps_load_acquire(&x_can_trace) != 0; /* acquire: pairs with library_loaded */
}

uintptr_t ps_trace_first(struct ps_unwind *walk, uintptr_t instruction) {
    for (size_t i = 0; i < SKIPPED_LIMIT; i++) {
        uintptr_t site = ps_unwind_next(walk);
        if (site == instruction || (instruction == 0 && !is_own(site))) {
            return site;
        }
    }
    return 0;
}

size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction) {
    struct ps_unwind walk;
    if (!ps_trace_is_ready()) {
        return 0;
    }
    ps_unwind_here(&walk);
    uintptr_t site = ps_trace_first(&walk, instruction);
    size_t taken = 0;
    while (taken < limit && site != 0) {
        sites[taken++] = site;
        site = taken < limit ? ps_unwind_next(&walk) : 0;
    }
    ps_unwind_end(&walk);
    return taken;
}

static void append(char *text, size_t capacity, const char *more) {
    size_t length = strlen(text);
    size_t added = strlen(more);
    if (length + added < capacity) {
        memcpy(text + length, more, added + 1);
    }
}

static void append_hex(char *text, size_t capacity, uintptr_t value) {
    char digits[2 * sizeof value + 1];
    size_t first = sizeof digits - 1;
    digits[first] = '\0';
    do {
        digits[--first] = "0123456789abcdef"[value & 15];
        value >>= 4;
    } while (value != 0);
    append(text, capacity, digits + first);
}

/* "/usr/bin/program(+0x1234) function", the number as addr2line takes it. */
void ps_guard_name(uintptr_t site, char *text, size_t capacity) {
    char path[PATH_BYTES];
    struct ps_loader_site named;
    struct search search = {.address = site};
    text[0] = '\0';
    if (!ps_loader_site_of(site, &named, path, sizeof path) ||
        dl_iterate_phdr(look_at, &search) == 0) {
        return;
    }
    append(text, capacity, named.file != NULL ? named.file : "?");
    append(text, capacity, "(+0x");
    append_hex(text, capacity, site - search.base);
    append(text, capacity, ")");
    if (named.function != NULL) {
        append(text, capacity, " ");
        append(text, capacity, named.function);
    }
}
