/* SPDX-License-Identifier: MIT */
/*
 * See loader.h: by the functions of the loader, for libpoolshim.so. No locks but the loader's.
 */
#include "shim/loader.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/auxiliary.h"

#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <string.h>

#define NOTE_OWNER "poolshim"

PS_AT_START void *ps_loader_next(const char *name) {
    int saved_errno = errno;
    void *function = dlsym(RTLD_NEXT, name);
    errno = saved_errno;
    return function;
}

PS_AT_START void *ps_loader_find_object(void) {
    int saved_errno = errno;
    void *function = dlsym(RTLD_DEFAULT, "_dl_find_object");
    errno = saved_errno;
    return function;
}

/* The note that shim/linked/note.c puts into the program. */
static PS_AT_START bool has_note(const ElfW(Phdr) * part, uintptr_t bias) {
    uintptr_t at = bias + part->p_vaddr;
    uintptr_t end = at + part->p_memsz;
    while (end - at >= sizeof(ElfW(Nhdr))) { /* ends: each round passes a header or more */
        const ElfW(Nhdr) *note = (const ElfW(Nhdr) *)at;
        const char *name = (const char *)(note + 1);
        if (note->n_namesz == sizeof NOTE_OWNER &&
            memcmp(name, NOTE_OWNER, sizeof NOTE_OWNER) == 0) {
            return true;
        }
        at += sizeof *note + ps_round_up(note->n_namesz, 4) + ps_round_up(note->n_descsz, 4);
        if (at > end) {
            return false;
        }
    }
    return false;
}

PS_AT_START bool ps_loader_is_idle(void) {
    const ElfW(Phdr) *parts = (const ElfW(Phdr) *)ps_auxiliary(AT_PHDR);
    size_t count = parts != NULL ? ps_auxiliary(AT_PHNUM) : 0;
    uintptr_t bias = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].p_type == PT_PHDR) {
            bias = (uintptr_t)parts - parts[i].p_vaddr;
        }
    }
    for (size_t i = 0; i < count; i++) {
        if (parts[i].p_type == PT_NOTE && has_note(&parts[i], bias)) {
            return true;
        }
    }
    return false;
}

PS_AT_START bool ps_loader_own_code(uintptr_t *begin, size_t *bytes) {
    (void)begin;
    (void)bytes;
    return false;
}

bool ps_loader_site_of(uintptr_t address, struct ps_loader_site *site, char *buffer,
                       size_t buffer_bytes) {
    Dl_info info;
    (void)buffer;
    (void)buffer_bytes;
    if (dladdr((void *)address, &info) == 0) {
        return false;
    }
    *site = (struct ps_loader_site){.file = info.dli_fname, .function = info.dli_sname};
    return true;
}
