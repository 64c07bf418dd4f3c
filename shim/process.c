/* SPDX-License-Identifier: MIT */
/*
 * See process.h. Reads /proc/self/smaps_rollup, status, statm and maps. No locks.
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
    /* The kernel adds to its peak in batches. */
    memory->resident_peak_bytes = ps_max(memory->resident_peak_bytes, memory->resident_bytes);
}

/* ---- mappings ---- */

/*
 * From /proc/self/maps, not from dl_iterate_phdr of libc, which takes the loader's lock and may be
 * interposed: a profile is also written from within malloc. Build ids are read through
 * /proc/self/mem, so that a file that is closed meanwhile is no fault.
 */

#define LINE_BYTES (PATH_MAX + 128)
#define VDSO_NAME "[vdso]"
#define PARTS_LIMIT 32 /* of a file */

/* The file whose lines are being read, which are adjacent. */
struct reading {
    struct ps_mappings *mappings;
    long memory_fd;   /* of /proc/self/mem, or an error */
    const char *name; /* "" where there was no room for it */
    uint64_t inode;   /* with the device, tells files apart */
    uint64_t device;
    uintptr_t image; /* where the beginning of the file is mapped; 0: nowhere */
};

/* A line of the list. */
struct line {
    uint64_t start, limit, file_offset, device, inode;
    bool is_code;
    const char *path;
};

/* A hexadecimal number and the character after it, at *at. */
static bool take_number(const char **at, uint64_t *value, char end) {
    const char *from = *at;
    *value = 0;
    for (;; (*at)++) { /* ends: at the end of the text at the latest */
        char c = **at;
        unsigned digit = (unsigned)(c >= 'a' ? c - 'a' + 10 : c - '0');
        if (digit > 15 || (c > '9' && c < 'a')) {
            break;
        }
        *value = *value << 4 | digit;
    }
    return *at != from && *(*at)++ == end;
}

/* start-limit rwxp offset major:minor inode, blanks, path. */
static bool parse_line(const char *text, struct line *out) {
    uint64_t major;
    uint64_t minor;
    if (!take_number(&text, &out->start, '-') || !take_number(&text, &out->limit, ' ')) {
        return false;
    }
    for (int i = 0; i < 4; i++) {
        if (text[i] == '\0') {
            return false;
        }
    }
    out->is_code = text[2] == 'x';
    text += 4;
    if (*text++ != ' ' || !take_number(&text, &out->file_offset, ' ') ||
        !take_number(&text, &major, ':') || !take_number(&text, &minor, ' ') ||
        !ps_file_number(&text, &out->inode)) {
        return false;
    }
    out->device = major << 32 | minor;
    while (*text == ' ') {
        text++;
    }
    out->path = text;
    return *text == '/' || strcmp(text, VDSO_NAME) == 0;
}

static const char *store_name(struct ps_mappings *mappings, const char *name, size_t length) {
    if (sizeof mappings->names - mappings->name_bytes <= length) {
        return "";
    }
    char *at = mappings->names + mappings->name_bytes;
    memcpy(at, name, length);
    mappings->name_bytes += length + 1; /* the memory is zero */
    return at;
}

static bool read_memory(const struct reading *reading, uintptr_t from, void *to, size_t bytes) {
    return ps_syscall6(SYS_pread64, reading->memory_fd, (long)to, (long)bytes, (long)from, 0, 0) ==
           (long)bytes;
}

/* Copies the build id from notes, if it is there. */
static void read_notes(const struct reading *reading, struct ps_mapping *mapping, uintptr_t at,
                       size_t bytes) {
    static const char owner[] = "GNU";
    uintptr_t end = at + bytes;
    while (end - at >= sizeof(ElfW(Nhdr))) { /* ends: each round moves on by a header or more */
        ElfW(Nhdr) note;
        char name[sizeof owner];
        if (!read_memory(reading, at, &note, sizeof note)) {
            return;
        }
        uintptr_t name_at = at + sizeof note;
        uintptr_t text_at = name_at + ps_round_up((size_t)note.n_namesz, 4);
        at = text_at + ps_round_up((size_t)note.n_descsz, 4);
        if (at > end) {
            return;
        }
        if (note.n_type == NT_GNU_BUILD_ID && note.n_namesz == sizeof owner &&
            note.n_descsz <= PS_BUILD_ID_BYTES &&
            read_memory(reading, name_at, name, sizeof name) &&
            memcmp(name, owner, sizeof owner) == 0 &&
            read_memory(reading, text_at, mapping->build_id, note.n_descsz)) {
            mapping->build_id_bytes = note.n_descsz;
            return;
        }
    }
}

static void read_build_id(const struct reading *reading, struct ps_mapping *mapping) {
    ElfW(Ehdr) header;
    uintptr_t base = 0; /* memory address less address in the file */
    bool has_base = false;
    if (reading->image == 0 || !read_memory(reading, reading->image, &header, sizeof header) ||
        memcmp(header.e_ident, ELFMAG, SELFMAG) != 0) {
        return;
    }
    for (size_t i = 0; i < header.e_phnum && i < PARTS_LIMIT; i++) {
        ElfW(Phdr) part;
        uintptr_t at = reading->image + header.e_phoff + i * sizeof part;
        if (mapping->build_id_bytes != 0 || !read_memory(reading, at, &part, sizeof part)) {
            return;
        }
        if (part.p_type == PT_LOAD && !has_base) {
            base = reading->image + part.p_offset - part.p_vaddr;
            has_base = true;
        }
        if (part.p_type == PT_NOTE) { /* the parts to be loaded may come later */
            uintptr_t notes =
                has_base ? base + part.p_vaddr : reading->image + (uintptr_t)part.p_offset;
            read_notes(reading, mapping, notes, part.p_memsz);
        }
    }
}

static void visit_line(void *context, char *text) {
    struct reading *reading = context;
    struct ps_mappings *mappings = reading->mappings;
    struct line line;
    if (!parse_line(text, &line)) {
        return;
    }
    if (line.inode != reading->inode || line.device != reading->device) {
        reading->inode = line.inode;
        reading->device = line.device;
        reading->name = NULL;
        reading->image = 0;
    }
    reading->image = line.file_offset == 0 ? line.start : reading->image;
    if (!line.is_code || mappings->count == PS_MAPPINGS_LIMIT) {
        return;
    }
    if (reading->name == NULL) {
        reading->name = store_name(mappings, line.path, strlen(line.path));
    }
    struct ps_mapping *mapping = &mappings->mappings[mappings->count++];
    mapping->start = line.start;
    mapping->limit = line.limit;
    mapping->file_offset = line.file_offset;
    mapping->name = reading->name;
    read_build_id(reading, mapping);
}

/* The list is sorted by addresses. */
static void put_program_first(struct ps_mappings *mappings) {
    char path[PATH_MAX];
    long length = ps_syscall6(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)path,
                              sizeof path - 1, 0, 0);
    path[length > 0 ? length : 0] = '\0';
    for (size_t i = 1; i < mappings->count; i++) {
        if (strcmp(mappings->mappings[0].name, path) != 0 &&
            strcmp(mappings->mappings[i].name, path) == 0) {
            struct ps_mapping first = mappings->mappings[i];
            mappings->mappings[i] = mappings->mappings[0];
            mappings->mappings[0] = first;
        }
    }
}

void ps_mappings_read(struct ps_mappings *mappings) {
    char buffer[LINE_BYTES];
    struct reading reading = {.mappings = mappings, .inode = UINT64_MAX};
    reading.memory_fd =
        ps_syscall6(SYS_openat, AT_FDCWD, (long)"/proc/self/mem", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    ps_file_lines("/proc/self/maps", buffer, sizeof buffer, visit_line, &reading);
    if (!ps_syscall_failed(reading.memory_fd)) {
        (void)ps_syscall3(SYS_close, reading.memory_fd, 0, 0);
    }
    put_program_first(mappings);
}

size_t ps_mappings_find(const struct ps_mappings *mappings, uintptr_t address) {
    for (size_t i = 0; i < mappings->count; i++) {
        const struct ps_mapping *mapping = &mappings->mappings[i];
        if (address - mapping->start < mapping->limit - mapping->start) {
            return i + 1;
        }
    }
    return 0;
}
