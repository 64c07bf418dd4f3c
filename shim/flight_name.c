/* SPDX-License-Identifier: MIT */
/*
 * See flight.h. Reads the file by system calls, a piece at a time: its table of symbols, or the
 * table for the loader where that was stripped. Everything in the file is checked: it may have been
 * replaced since it was loaded. No locks; allocates nothing.
 */
#include "pools/engine/base/bits.h"
#include "pools/engine/os/files.h"
#include "shim/flight.h"

#include <elf.h>
#include <link.h>
#include <stdbool.h>
#include <string.h>

#define SECTIONS_MOST 256
#define SEGMENTS_MOST 64
#define SYMBOLS_MOST ((size_t)1 << 20)
#define PIECE 128 /* symbols */

struct file {
    int fd;
    ElfW(Ehdr) head;
};

static bool read_at(const struct file *file, void *out, size_t bytes, uint64_t offset) {
    long got = ps_syscall6(SYS_pread64, file->fd, (long)out, (long)bytes, (long)offset, 0, 0);
    return got == (long)bytes;
}

/* The address that the file gives to a place in it. */
static bool find_address(const struct file *file, uint64_t offset, uint64_t *address) {
    for (size_t i = 0; i < ps_min(file->head.e_phnum, SEGMENTS_MOST); i++) {
        ElfW(Phdr) part;
        if (!read_at(file, &part, sizeof part, file->head.e_phoff + i * sizeof part)) {
            return false;
        }
        if (part.p_type == PT_LOAD && offset - part.p_offset < part.p_filesz) {
            *address = part.p_vaddr + (offset - part.p_offset);
            return true;
        }
    }
    return false;
}

/* The table of symbols, the complete one if there is one. */
static bool find_table(const struct file *file, ElfW(Shdr) * out) {
    bool has_any = false;
    for (size_t i = 0; i < ps_min(file->head.e_shnum, SECTIONS_MOST); i++) {
        ElfW(Shdr) section;
        if (!read_at(file, &section, sizeof section, file->head.e_shoff + i * sizeof section)) {
            return false;
        }
        bool is_whole = section.sh_type == SHT_SYMTAB;
        if (is_whole || (section.sh_type == SHT_DYNSYM && !has_any)) {
            *out = section;
            has_any = true;
        }
        if (is_whole) {
            break;
        }
    }
    return has_any;
}

/* The function that an address lies in; its st_name is 0 if there is none. */
static ElfW(Sym) find_symbol(const struct file *file, const ElfW(Shdr) * table, uint64_t address) {
    ElfW(Sym) piece[PIECE];
    ElfW(Sym) found = {.st_name = 0};
    size_t count = ps_min(table->sh_size / sizeof piece[0], SYMBOLS_MOST);
    for (size_t i = 0; i < count; i += PIECE) {
        size_t length = ps_min(count - i, PIECE);
        if (!read_at(file, piece, length * sizeof piece[0],
                     table->sh_offset + i * sizeof piece[0])) {
            break;
        }
        for (size_t k = 0; k < length; k++) {
            bool is_function = (piece[k].st_info & 0xf) == STT_FUNC;
            if (is_function && address - piece[k].st_value < piece[k].st_size) {
                found = piece[k];
            }
        }
    }
    return found;
}

static bool read_name(struct file *file, char *out, size_t capacity, uint64_t offset) {
    ElfW(Shdr) table;
    ElfW(Shdr) strings;
    uint64_t address;
    if (!read_at(file, &file->head, sizeof file->head, 0) ||
        memcmp(file->head.e_ident, ELFMAG, SELFMAG) != 0 ||
        file->head.e_shentsize != sizeof table || file->head.e_phentsize != sizeof(ElfW(Phdr)) ||
        !find_address(file, offset, &address) || !find_table(file, &table) ||
        !read_at(file, &strings, sizeof strings,
                 file->head.e_shoff + table.sh_link * sizeof strings)) {
        return false;
    }
    ElfW(Sym) symbol = find_symbol(file, &table, address);
    if (symbol.st_name == 0) {
        return false;
    }
    long got = ps_syscall6(SYS_pread64, file->fd, (long)out, (long)(capacity - 1),
                           (long)(strings.sh_offset + symbol.st_name), 0, 0);
    out[got > 0 ? got : 0] = '\0';
    return true;
}

void ps_flight_name(char *out, size_t capacity, const char *path, uint64_t offset) {
    struct file file;
    long fd = ps_file_open(AT_FDCWD, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY, 0);
    out[0] = '\0';
    if (ps_syscall_failed(fd)) {
        return;
    }
    file.fd = (int)fd;
    if (!read_name(&file, out, capacity, offset)) {
        out[0] = '\0';
    }
    (void)ps_file_close((int)fd);
}
