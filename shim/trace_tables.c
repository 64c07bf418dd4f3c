/* SPDX-License-Identifier: MIT */
/*
 * See trace_tables.h. The tables are searched for as the walks over the stack do: by the index of
 * each file, .eh_frame_hdr. .eh_frame follows it, up to the end of the mapping, in what the linkers
 * write. No locks.
 */
#include "shim/trace_tables.h"

#include "pools/engine/os/files.h"
#include "pools/engine/os/os.h"
#include "shim/unwind.h"

#include <stdbool.h>

#define PIECE_PAGES 256 /* that are read at a time */
#define IS_PRESENT ((uint64_t)1 << 63)

struct mapping {
    uintptr_t begin;
    uintptr_t end;
    bool has_code;
};

static uintptr_t read_hex(const char **at) {
    uintptr_t value = 0;
    for (;; (*at)++) { /* ends: a zero ends the text */
        char digit = **at;
        if (digit >= '0' && digit <= '9') {
            value = value * 16 + (uintptr_t)(digit - '0');
        } else if (digit >= 'a' && digit <= 'f') {
            value = value * 16 + (uintptr_t)(digit - 'a' + 10);
        } else {
            return value;
        }
    }
}

/* The mapping of a line, "begin-end rwxp ..."; moves *at to the next line. False at the end. */
static bool next_mapping(const char **at, struct mapping *out) {
    if (**at == '\0') {
        return false;
    }
    out->begin = read_hex(at);
    *at += **at == '-' ? 1 : 0;
    out->end = read_hex(at);
    out->has_code = false;
    unsigned column = 0;
    while (**at != '\0' && **at != '\n') { /* ends: a zero ends the text */
        out->has_code = out->has_code || (column == 3 && **at == 'x');
        column++;
        (*at)++;
    }
    *at += **at == '\n' ? 1 : 0;
    return true;
}

static uintptr_t end_of_mapping(const char *maps, uintptr_t address) {
    struct mapping found;
    while (next_mapping(&maps, &found)) { /* ends: each turn passes a line */
        if (found.begin <= address && address < found.end) {
            return found.end;
        }
    }
    return address;
}

static uint64_t resident_bytes(int pagemap, uintptr_t begin, uintptr_t end) {
    uint64_t entries[PIECE_PAGES];
    uint64_t page_bytes = ps_os_page_bytes();
    uint64_t count = 0;
    uint64_t page = begin / page_bytes;
    while (page * page_bytes < end) { /* ends: each turn reads something */
        uint64_t left = (end + page_bytes - 1) / page_bytes - page;
        uint64_t wanted = left < PIECE_PAGES ? left : PIECE_PAGES;
        long got = ps_syscall6(SYS_pread64, pagemap, (long)entries, (long)(wanted * 8),
                               (long)(page * 8), 0, 0);
        if (got < 8) {
            break;
        }
        for (long i = 0; i < got / 8; i++) {
            count += (entries[i] & IS_PRESENT) != 0;
        }
        page += (uint64_t)got / 8;
    }
    return count * page_bytes;
}

uint64_t ps_trace_tables_resident(const char *maps) {
    struct ps_unwind_object object;
    struct mapping found;
    uint64_t bytes = 0;
    long pagemap = ps_file_open(AT_FDCWD, "/proc/self/pagemap", O_RDONLY | O_CLOEXEC, 0);
    if (ps_syscall_failed(pagemap)) {
        return 0;
    }
    const char *at = maps;
    while (next_mapping(&at, &found)) { /* ends: each turn passes a line */
        if (found.has_code && ps_unwind_object_find(found.begin, &object) && object.index != NULL) {
            uintptr_t index = (uintptr_t)object.index;
            bytes += resident_bytes((int)pagemap, index, end_of_mapping(maps, index));
        }
    }
    (void)ps_file_close((int)pagemap);
    return bytes;
}
