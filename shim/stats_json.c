/* SPDX-License-Identifier: MIT */
/*
 * The report as JSON: the figures of the table, under the keys of ps_report_rows. docs/stats.md
 * describes the format. Called by shim/stats.c. No locks.
 */
#include "shim/stats.h"

#include "pools/include/poolshim/poolshim.h"

#include <string.h>

#define FORMAT_VERSION 2 /* grows when a key changes its meaning or goes away */

static void add_key(struct ps_text *text, const char *separator, const char *key) {
    ps_text_add(text, separator);
    ps_text_add(text, "\"");
    ps_text_add(text, key);
    ps_text_add(text, "\": ");
}

static void add_member(struct ps_text *text, const char *separator, const char *key,
                       uint64_t value) {
    add_key(text, separator, key);
    ps_text_add_number(text, value);
}

static void add_row(const struct ps_report *report, const struct ps_report_row *row,
                    struct ps_text *text) {
    if (row->unit == PS_UNIT_WORD && ps_report_is_known(report, row)) {
        ps_text_add_json(text, ps_report_word(report, row));
    } else if (ps_report_is_known(report, row)) {
        ps_text_add_number(text, ps_report_value(report, row));
    } else {
        ps_text_add(text, "null");
    }
}

static void add_sections(const struct ps_report *report, struct ps_text *text) {
    const char *section = "";
    for (size_t i = 0; i < ps_report_row_count; i++) {
        const struct ps_report_row *row = &ps_report_rows[i];
        bool is_new = strcmp(row->section, section) != 0;
        if (is_new) {
            add_key(text, i == 0 ? ",\n  " : "\n  },\n  ", row->section);
            ps_text_add(text, "{");
            section = row->section;
        }
        add_key(text, is_new ? "\n    " : ",\n    ", row->key);
        add_row(report, row, text);
    }
    ps_text_add(text, "\n  }");
}

static void add_class(struct ps_text *text, const struct ps_census_class *class) {
    add_member(text, "{", "block_bytes", class->block_bytes);
    add_member(text, ", ", "live_count", class->live_blocks);
    add_member(text, ", ", "live_bytes", class->live_blocks * class->block_bytes);
    add_member(text, ", ", "slab_count", class->slabs);
    add_member(text, ", ", "slab_bytes", class->slab_bytes);
    add_member(text, ", ", "waste_bytes", ps_report_class_waste(class));
    ps_text_add(text, "}");
}

void ps_report_print_json(const struct ps_report *report, struct ps_text *text) {
    add_member(text, "{\n  ", "format", FORMAT_VERSION);
    add_key(text, ",\n  ", "poolshim");
    ps_text_add_json(text, POOLSHIM_VERSION);
    add_member(text, ",\n  ", "pid", report->pid);
    add_key(text, ",\n  ", "program");
    ps_text_add_json(text, report->program);
    add_sections(report, text);
    ps_report_heaps_json(report, text);
    add_key(text, ",\n  ", "size_classes");
    ps_text_add(text, "[");
    for (uint32_t i = 0; i < report->census.class_count; i++) {
        ps_text_add(text, i == 0 ? "\n    " : ",\n    ");
        add_class(text, &report->census.classes[i]);
    }
    ps_text_add(text, "\n  ]\n}\n");
}
