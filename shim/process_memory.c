/* SPDX-License-Identifier: MIT */
/*
 * Reading /proc/self/smaps_rollup, status and statm. Called by shim/stats.c. No locks.
 */
#include "shim/process_memory.h"

#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "shim/config.h"
#include "shim/text.h"

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
