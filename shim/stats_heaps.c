/* SPDX-License-Identifier: MIT */
/*
 * The heaps of a report: partitions of the heap (pools/engine/front/partition.h), those with the
 * most live bytes. Called by shim/stats.c and the printers. No locks.
 */
#include "shim/stats.h"

#include "pools/engine/front/partition.h"

#include <string.h>

static const struct {
    const char *title;
    size_t width;
} columns[] = {
    {"live blocks", 14}, {"live bytes", 16},   {"peak bytes", 16},
    {"limit bytes", 16}, {"mapped bytes", 16}, {"refused", 10},
};

/* Inserts a heap before those with fewer live bytes. */
static void insert(struct ps_report *report, const struct ps_report_heap *heap) {
    size_t at = report->heap_rows;
    while (at > 0 && report->heaps[at - 1].use.live_bytes < heap->use.live_bytes) {
        at--;
    }
    if (at == PS_REPORT_HEAPS) {
        return;
    }
    size_t moved = report->heap_rows - at - (report->heap_rows == PS_REPORT_HEAPS);
    memmove(&report->heaps[at + 1], &report->heaps[at], moved * sizeof *heap);
    report->heaps[at] = *heap;
    report->heap_rows += report->heap_rows < PS_REPORT_HEAPS;
}

void ps_report_take_heaps(struct ps_report *report) {
    for (uint32_t i = 0; i < ps_partition_end(); i++) {
        const struct ps_partition *partition = ps_partition_at(i);
        /* relaxed: a snapshot, as all of a report. */
        if (partition != NULL && ps_load_relaxed(&partition->x_state) != PS_PARTITION_NONE) {
            struct ps_report_heap heap;
            ps_partition_read(partition, &heap.use);
            memcpy(heap.name, partition->name, sizeof heap.name);
            heap.name[sizeof heap.name - 1] = '\0';
            report->heap_count++;
            insert(report, &heap);
        }
    }
}

void ps_report_heaps_table(const struct ps_report *report, struct ps_text *text) {
    if (report->heap_count == 0) {
        return;
    }
    ps_text_add(text, "\nheaps: ");
    ps_text_add_number(text, report->heap_count);
    ps_text_add(text, "\n");
    for (size_t i = 0; i < sizeof columns / sizeof columns[0]; i++) {
        ps_text_add_right(text, columns[i].title, columns[i].width);
    }
    ps_text_add(text, "  name\n");
    for (size_t i = 0; i < report->heap_rows; i++) {
        const struct ps_partition_use *use = &report->heaps[i].use;
        const uint64_t values[] = {use->live_count,  use->live_bytes,   use->peak_bytes,
                                   use->limit_bytes, use->mapped_bytes, use->refused_count};
        for (size_t k = 0; k < sizeof columns / sizeof columns[0]; k++) {
            ps_text_add_number_right(text, values[k], columns[k].width);
        }
        ps_text_add(text, "  ");
        ps_text_add_quoted(text, ps_str_of(report->heaps[i].name));
        ps_text_add(text, "\n");
    }
}

static void add_member(struct ps_text *text, const char *key, uint64_t value) {
    ps_text_add(text, ", \"");
    ps_text_add(text, key);
    ps_text_add(text, "\": ");
    ps_text_add_number(text, value);
}

void ps_report_heaps_json(const struct ps_report *report, struct ps_text *text) {
    if (report->heap_count == 0) {
        return;
    }
    ps_text_add(text, ",\n  \"heap_count\": ");
    ps_text_add_number(text, report->heap_count);
    ps_text_add(text, ",\n  \"heaps\": [");
    for (size_t i = 0; i < report->heap_rows; i++) {
        const struct ps_partition_use *use = &report->heaps[i].use;
        ps_text_add(text, i == 0 ? "\n    {\"name\": " : ",\n    {\"name\": ");
        ps_text_add_json(text, report->heaps[i].name);
        add_member(text, "live_count", use->live_count);
        add_member(text, "live_bytes", use->live_bytes);
        add_member(text, "peak_bytes", use->peak_bytes);
        add_member(text, "limit_bytes", use->limit_bytes);
        add_member(text, "mapped_bytes", use->mapped_bytes);
        add_member(text, "refused_count", use->refused_count);
        ps_text_add(text, "}");
    }
    ps_text_add(text, "\n  ]");
}
