/* SPDX-License-Identifier: MIT */
/*
 * jemalloc's malloc_stats_print: the table of the statistics, or, with the option J, mallctl's
 * names as the JSON that readers of jemalloc's expect. Any thread. No locks.
 */
#include "shim/mallctl.h"

#include "shim/entry.h"
#include "shim/stats.h"

#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES 1024

void malloc_stats_print(void (*write)(void *, const char *), void *context, const char *options);

static void add_key(struct ps_text *text, const char *separator, const char *key) {
    ps_text_add(text, separator);
    ps_text_add_json(text, key);
    ps_text_add(text, ":");
}

static void add_value(struct ps_text *text, uint8_t type, uint64_t value) {
    if (type == PS_MALLCTL_BOOL) {
        ps_text_add(text, value != 0 ? "true" : "false");
    } else if (type == PS_MALLCTL_TEXT) {
        ps_text_add_json(text, (const char *)(uintptr_t)value);
    } else if (type == PS_MALLCTL_INT64 && value > INT64_MAX) {
        ps_text_add(text, "-");
        ps_text_add_number(text, -value);
    } else {
        ps_text_add_number(text, value);
    }
}

/* Adds the value of a row, if this index can be read, with the row's last component as the key. */
static bool add_row(struct ps_text *text, const char *separator, const struct ps_mallctl_row *row,
                    size_t index) {
    uint64_t value;
    const size_t indexes[PS_MALLCTL_INDEXES] = {index, 0};
    bool has_value = row->access == PS_MALLCTL_READ || row->access == PS_MALLCTL_WRITE;
    if (!has_value ||
        ps_mallctl_sources[row->value].get.read(row->argument, indexes, &value) != 0) {
        return false;
    }
    add_key(text, separator, strrchr(row->name, '.') + 1);
    add_value(text, row->type, value);
    return true;
}

/* An object of the rows whose names are the prefix and one more component. */
static void add_rows(struct ps_text *text, const char *prefix, size_t index) {
    const char *separator = "{";
    size_t length = strlen(prefix);
    for (size_t i = 0; i < ps_mallctl_row_count; i++) {
        const char *name = ps_mallctl_rows[i].name;
        bool is_inside = strncmp(name, prefix, length) == 0;
        if (is_inside && strchr(name + length, '.') == NULL &&
            add_row(text, separator, &ps_mallctl_rows[i], index)) {
            separator = ",";
        }
    }
}

static void add_bins(struct ps_text *text) {
    uint64_t count;
    (void)ps_mallctl_read_setting(PS_SETTING_BIN_COUNT, NULL, &count);
    for (size_t i = 0; i < count; i++) {
        ps_text_add(text, i == 0 ? "" : ",");
        add_rows(text, "arenas.bin.#.", i);
        ps_text_add(text, "}");
    }
}

static void print_json(struct ps_text *text) {
    uint64_t version;
    (void)ps_mallctl_read_words(PS_WORDS_VERSION, NULL, &version);
    add_key(text, "{", "jemalloc");
    add_key(text, "{", "version");
    add_value(text, PS_MALLCTL_TEXT, version);
    add_key(text, ",\n", "config");
    add_rows(text, "config.", 0);
    add_key(text, "},\n", "opt");
    add_rows(text, "opt.", 0);
    add_key(text, "},\n", "arenas");
    add_rows(text, "arenas.", 0);
    add_key(text, ",\n", "bin");
    ps_text_add(text, "[");
    add_bins(text);
    add_key(text, "]},\n", "stats");
    add_rows(text, "stats.", 0);
    add_key(text, "},\n", "stats.arenas");
    add_key(text, "{", "merged");
    add_rows(text, "stats.arenas.#.", PS_MALLCTL_ARENAS_ALL);
    ps_text_add(text, "}}}}\n");
}

/* write NULL: to stderr. options: letters; only J has an effect; NULL: none. */
PS_EXPORT void malloc_stats_print(void (*write)(void *, const char *), void *context,
                                  const char *options) {
    char buffer[BUFFER_BYTES];
    struct ps_text text;
    if (write != NULL) {
        ps_text_start_sink(&text, buffer, sizeof buffer, write, context);
    } else {
        ps_text_start(&text, buffer, sizeof buffer, STDERR_FILENO);
    }
    if (options != NULL && strchr(options, 'J') != NULL) {
        (void)ps_mallctl_write_epoch(NULL, 0);
        print_json(&text);
    } else {
        struct ps_report report;
        ps_report_take(&report);
        ps_report_print_table(&report, &text);
    }
    (void)ps_text_flush(&text);
}
