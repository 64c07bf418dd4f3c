/* SPDX-License-Identifier: MIT */
/*
 * See mappings.h.
 */
#include "shim/mappings.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"

#include <elf.h>
#include <limits.h>
#include <link.h>
#include <string.h>
#include <unistd.h>

static const char *store_name(struct ps_mappings *mappings, const char *name, size_t length) {
    if (sizeof mappings->names - mappings->name_bytes <= length) {
        return "";
    }
    char *at = mappings->names + mappings->name_bytes;
    memcpy(at, name, length);
    mappings->name_bytes += length + 1; /* the memory is zero */
    return at;
}

/* The loader has no name for the program itself. */
static const char *name_of(struct ps_mappings *mappings, const struct dl_phdr_info *info) {
    char path[PATH_MAX];
    if (info->dlpi_name != NULL && info->dlpi_name[0] != '\0') {
        return store_name(mappings, info->dlpi_name, strlen(info->dlpi_name));
    }
    ssize_t length = mappings->count == 0 ? readlink("/proc/self/exe", path, sizeof path) : 0;
    return length > 0 ? store_name(mappings, path, (size_t)length) : "";
}

/* Copies the build id from notes, if it is there. */
static void read_notes(struct ps_mapping *mapping, const char *notes, size_t bytes) {
    static const char owner[] = "GNU";
    size_t at = 0;
    while (bytes - at >= sizeof(ElfW(Nhdr))) { /* ends: each round moves on by a header or more */
        ElfW(Nhdr) note;
        memcpy(&note, notes + at, sizeof note);
        size_t name_at = at + sizeof note;
        size_t text_at = name_at + ps_round_up((size_t)note.n_namesz, 4);
        size_t end = text_at + ps_round_up((size_t)note.n_descsz, 4);
        if (end > bytes) {
            return;
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof owner &&
            memcmp(notes + name_at, owner, sizeof owner) == 0 &&
            note.n_descsz <= PS_BUILD_ID_BYTES) {
            memcpy(mapping->build_id, notes + text_at, note.n_descsz);
            mapping->build_id_bytes = note.n_descsz;
            return;
        }
        at = end;
    }
}

static void read_build_id(struct ps_mapping *mapping, const struct dl_phdr_info *info) {
    for (size_t i = 0; i < info->dlpi_phnum && mapping->build_id_bytes == 0; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type == PT_NOTE) {
            read_notes(mapping, (const char *)(info->dlpi_addr + part->p_vaddr), part->p_memsz);
        }
    }
}

static int add_object(struct dl_phdr_info *info, size_t info_bytes, void *context) {
    (void)info_bytes;
    struct ps_mappings *mappings = context;
    const char *name = name_of(mappings, info);
    size_t page_bytes = ps_os_page_bytes();
    for (size_t i = 0; i < info->dlpi_phnum; i++) {
        const ElfW(Phdr) *part = &info->dlpi_phdr[i];
        if (part->p_type != PT_LOAD || (part->p_flags & PF_X) == 0) {
            continue;
        }
        if (mappings->count == PS_MAPPINGS_LIMIT) {
            return 1;
        }
        struct ps_mapping *mapping = &mappings->mappings[mappings->count++];
        uintptr_t first = info->dlpi_addr + part->p_vaddr;
        mapping->start = ps_round_down(first, page_bytes);
        mapping->limit = ps_round_up(first + part->p_memsz, page_bytes);
        mapping->file_offset = part->p_offset - (first - mapping->start);
        mapping->name = name;
        read_build_id(mapping, info);
    }
    return 0;
}

void ps_mappings_read(struct ps_mappings *mappings) { (void)dl_iterate_phdr(add_object, mappings); }

size_t ps_mappings_find(const struct ps_mappings *mappings, uintptr_t address) {
    for (size_t i = 0; i < mappings->count; i++) {
        const struct ps_mapping *mapping = &mappings->mappings[i];
        if (address - mapping->start < mapping->limit - mapping->start) {
            return i + 1;
        }
    }
    return 0;
}
