/* SPDX-License-Identifier: MIT */
/*
 * See process.h. Reads /proc/self/smaps_rollup, status and statm, and the loader's list. No locks.
 */
#include "shim/process.h"

#include "pools/engine/base/bits.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "shim/config.h"
#include "shim/text.h"

#include <elf.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <string.h>

#define PATH_BYTES 128
#define FILE_BYTES 2048 /* smaps_rollup has 900 bytes, status 1500 with the lines in use in 700 */

/* Reads the beginning of a file; returns its length, 0 when there is none. */
static size_t read_beginning(const char *directory, const char *name, char *out, size_t capacity) {
    char path[PATH_BYTES];
    struct ps_text text;
    ps_text_start(&text, path, sizeof path, PS_TEXT_TO_BUFFER);
    ps_text_add(&text, directory);
    ps_text_add(&text, "/");
    ps_text_add(&text, name);
    ps_text_add_str(&text, (struct ps_str){.data = "", .length = 1});
    return text.has_failed ? 0 : ps_file_read(path, out, capacity);
}

/* The number at the start of `text`, blanks before it skipped. */
static bool number_at(struct ps_str text, uint64_t *value) {
    text = ps_str_trim(text);
    size_t digits = 0;
    while (digits < text.length && text.data[digits] >= '0' && text.data[digits] <= '9') {
        digits++;
    }
    text.length = digits;
    return ps_value_parse_count(text, value) == PS_NUMBER_FINE;
}

/* The number of the line "<key>:   123 kB", in bytes. */
static bool find_kib(struct ps_str file, const char *key, uint64_t *bytes) {
    size_t key_length = strlen(key);
    while (file.length > 0) {
        const char *end = memchr(file.data, '\n', file.length);
        size_t line_length = end == NULL ? file.length : (size_t)(end - file.data);
        if (line_length > key_length && memcmp(file.data, key, key_length) == 0 &&
            file.data[key_length] == ':') {
            struct ps_str rest = {.data = file.data + key_length + 1,
                                  .length = line_length - key_length - 1};
            bool is_number = number_at(rest, bytes);
            *bytes *= 1024;
            return is_number;
        }
        size_t used = line_length + (end != NULL);
        file.data += used;
        file.length -= used;
    }
    return false;
}

/* Field 2 of statm, in pages: cheaper and coarser than smaps_rollup, which needs Linux 4.14. */
static bool find_statm(struct ps_str file, uint64_t *bytes) {
    const char *blank = memchr(file.data, ' ', file.length);
    if (blank == NULL) {
        return false;
    }
    size_t skipped = (size_t)(blank - file.data);
    struct ps_str rest = {.data = blank, .length = file.length - skipped};
    bool is_number = number_at(rest, bytes);
    *bytes *= ps_os_page_bytes();
    return is_number;
}

void ps_process_memory_read(struct ps_process_memory *memory, const char *directory) {
    char buffer[FILE_BYTES];
    struct ps_str file = {.data = buffer};
    *memory = (struct ps_process_memory){0};
    file.length = read_beginning(directory, "smaps_rollup", buffer, sizeof buffer);
    memory->has_resident = find_kib(file, "Rss", &memory->resident_bytes);
    memory->has_huge = find_kib(file, "AnonHugePages", &memory->huge_bytes);
    if (!memory->has_resident) {
        file.length = read_beginning(directory, "statm", buffer, sizeof buffer);
        memory->has_resident = find_statm(file, &memory->resident_bytes);
    }
    file.length = read_beginning(directory, "status", buffer, sizeof buffer);
    memory->has_resident_peak = find_kib(file, "VmHWM", &memory->resident_peak_bytes);
}

/* ---- mappings ---- */

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
    long length = mappings->count == 0
                      ? ps_syscall6(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path,
                                    sizeof path, 0, 0)
                      : 0;
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
