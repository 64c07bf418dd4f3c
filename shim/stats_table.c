/* SPDX-License-Identifier: MIT */
/*
 * The report as a readable table. Called by shim/stats.c. No locks.
 */
#include "shim/stats.h"

#include "pools/include/poolshim/poolshim.h"

#include <string.h>

#define LABEL_COLUMN 26
#define NUMBER_COLUMN 18
#define SIZE_COLUMN 14

static const struct {
    const char *title;
    size_t width;
} class_columns[] = {
    {"block bytes", 12}, {"live blocks", 14}, {"live bytes", 16}, {"slabs", 9},
    {"slab bytes", 16},  {"waste bytes", 16}, {"waste %", 9},
};

/* "small_blocks" as "small blocks". */
static void add_title(struct ps_text *text, const char *section) {
    ps_text_add(text, "\n");
    for (; *section != '\0'; section++) {
        char c = *section == '_' ? ' ' : *section;
        ps_text_add_str(text, (struct ps_str){.data = &c, .length = 1});
    }
    ps_text_add(text, "\n");
}

static void add_row(const struct ps_report *report, const struct ps_report_row *row,
                    struct ps_text *text) {
    ps_text_add(text, "  ");
    ps_text_add_left(text, row->label, LABEL_COLUMN);
    if (!ps_report_is_known(report, row)) {
        ps_text_add_right(text, "unknown", NUMBER_COLUMN);
        ps_text_add(text, "\n");
        return;
    }
    if (row->unit == PS_UNIT_WORD) {
        ps_text_add_right(text, ps_report_word(report, row), NUMBER_COLUMN);
        ps_text_add(text, "\n");
        return;
    }
    uint64_t value = ps_report_value(report, row);
    ps_text_add_number_right(text, value, NUMBER_COLUMN);
    if (row->unit == PS_UNIT_BYTES) {
        ps_text_add(text, " bytes");
        ps_text_add_rounded_size(text, value, SIZE_COLUMN);
    }
    ps_text_add(text, "\n");
}

static void add_class_line(struct ps_text *text, const struct ps_census_class *class,
                           uint64_t waste) {
    size_t column = 0;
    ps_text_add_number_right(text, class->block_bytes, class_columns[column++].width);
    ps_text_add_number_right(text, class->live_blocks, class_columns[column++].width);
    ps_text_add_number_right(text, class->live_blocks * class->block_bytes,
                             class_columns[column++].width);
    ps_text_add_number_right(text, class->slabs, class_columns[column++].width);
    ps_text_add_number_right(text, class->slab_bytes, class_columns[column++].width);
    ps_text_add_number_right(text, waste, class_columns[column++].width);
    ps_text_add_percent(text, waste, class->slab_bytes, class_columns[column].width);
    ps_text_add(text, "\n");
}

/* All classes without a live block in one line: at exit that is most of the used classes. */
static void add_empty_line(struct ps_text *text, const struct ps_census *census) {
    uint64_t slabs = 0;
    uint64_t slab_bytes = 0;
    for (uint32_t i = 0; i < census->class_count; i++) {
        if (census->classes[i].live_blocks == 0) {
            slabs += census->classes[i].slabs;
            slab_bytes += census->classes[i].slab_bytes;
        }
    }
    if (slabs == 0) {
        return;
    }
    size_t column = 0;
    ps_text_add_right(text, "unused", class_columns[column++].width);
    ps_text_add_number_right(text, 0, class_columns[column++].width);
    ps_text_add_number_right(text, 0, class_columns[column++].width);
    ps_text_add_number_right(text, slabs, class_columns[column++].width);
    ps_text_add_number_right(text, slab_bytes, class_columns[column++].width);
    ps_text_add_number_right(text, slab_bytes, class_columns[column++].width);
    ps_text_add_right(text, "", class_columns[column].width);
    ps_text_add(text, "\n");
}

static void add_total_line(struct ps_text *text, const struct ps_report *report) {
    const struct ps_census *census = &report->census;
    size_t column = 0;
    ps_text_add_right(text, "all", class_columns[column++].width);
    ps_text_add_number_right(text, report->small_live_blocks, class_columns[column++].width);
    ps_text_add_number_right(text, census->small_live_bytes, class_columns[column++].width);
    ps_text_add_number_right(text, report->small_slabs, class_columns[column++].width);
    ps_text_add_number_right(text, census->small_slab_bytes, class_columns[column++].width);
    ps_text_add_number_right(text, report->small_waste_bytes, class_columns[column++].width);
    ps_text_add_percent(text, report->small_waste_bytes, census->small_slab_bytes,
                        class_columns[column].width);
    ps_text_add(text, "\n");
}

static void add_classes(const struct ps_report *report, struct ps_text *text) {
    const struct ps_census *census = &report->census;
    add_title(text, "size_classes");
    for (size_t i = 0; i < sizeof class_columns / sizeof class_columns[0]; i++) {
        ps_text_add_right(text, class_columns[i].title, class_columns[i].width);
    }
    ps_text_add(text, "\n");
    for (uint32_t i = 0; i < census->class_count; i++) {
        const struct ps_census_class *class = &census->classes[i];
        if (class->live_blocks != 0) {
            add_class_line(text, class, ps_report_class_waste(class));
        }
    }
    add_empty_line(text, census);
    add_total_line(text, report);
}

void ps_report_print_table(const struct ps_report *report, struct ps_text *text) {
    ps_text_add(text, "poolshim " POOLSHIM_VERSION ": statistics of process ");
    ps_text_add_number(text, report->pid);
    ps_text_add(text, ", ");
    ps_text_add_quoted(text, ps_str_of(report->program));
    ps_text_add(text, "\n");
    const char *section = "";
    for (size_t i = 0; i < ps_report_row_count; i++) {
        const struct ps_report_row *row = &ps_report_rows[i];
        if (strcmp(row->section, section) != 0) {
            section = row->section;
            add_title(text, section);
        }
        add_row(report, row, text);
    }
    ps_report_heaps_table(report, text);
    add_classes(report, text);
}
