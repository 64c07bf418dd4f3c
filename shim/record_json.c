/* SPDX-License-Identifier: MIT */
/*
 * See record.h: the printing. Called by shim/record.c.
 */
#include "pools/engine/os/os.h"
#include "pools/engine/page/page_map.h"
#include "pools/engine/record/record_peak.h"
#include "pools/engine/small/size_class.h"
#include "shim/record.h"

#include <string.h>

#define FORMAT_VERSION 2 /* grows when a key changes its meaning or goes away */

static void add_member(struct ps_text *text, const char *key, uint64_t value) {
    ps_text_add(text, key);
    ps_text_add_number(text, value);
}

static void add_pair(struct ps_text *text, const char *separator, uint64_t a, uint64_t b) {
    ps_text_add(text, separator);
    add_member(text, "[", a);
    add_member(text, ", ", b);
    ps_text_add(text, "]");
}

static void add_command(struct ps_text *text, const struct ps_record_process *process) {
    const char *end = process->command + process->command_bytes;
    ps_text_add(text, ",\n \"command\": [");
    for (const char *word = process->command; word < end; word += strlen(word) + 1) {
        ps_text_add(text, word == process->command ? "" : ", ");
        ps_text_add_json(text, word);
    }
    ps_text_add(text, "]");
}

static void add_classes(struct ps_text *text) {
    ps_text_add(text, ",\n \"size_classes\": [");
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        add_member(text, i == 0 ? "" : ", ", ps_size_classes[i].block_bytes);
    }
    ps_text_add(text, "],\n \"slab_bytes\": [");
    for (uint32_t i = 0; i < ps_size_class_count; i++) {
        uint64_t bytes = (uint64_t)ps_size_classes[i].granules << PS_GRANULE_SHIFT;
        add_member(text, i == 0 ? "" : ", ", bytes);
    }
    ps_text_add(text, "]");
}

static void add_larger(struct ps_text *text, const char *before, uint64_t count, uint64_t bytes) {
    ps_text_add(text, before);
    add_member(text, "\"larger\": {\"count\": ", count);
    add_member(text, ", \"bytes\": ", bytes);
    ps_text_add(text, "}");
}

static void add_peak(struct ps_text *text, const struct ps_record_peak *peak) {
    add_member(text, "{\"live_bytes\": ", peak->live_bytes);
    add_larger(text, ", ", peak->large_count, peak->large_bytes);
    ps_text_add(text, ",\n   \"sizes\": [");
    for (size_t i = 0; i < peak->count; i++) {
        const struct ps_record_entry *entry = &peak->entries[i];
        add_pair(text, i == 0 ? "" : ", ", ps_record_bytes_of(entry->number), entry->live_count);
    }
    ps_text_add(text, "]}");
}

static void add_requests(struct ps_text *text) {
    const char *separator = "";
    for (size_t number = 1; number < PS_RECORD_SIZES; number++) {
        uint64_t requests = ps_record_peak_requests(number);
        if (requests != 0) {
            add_pair(text, separator, ps_record_bytes_of(number), requests);
            separator = ", ";
        }
    }
}

void ps_record_print(const struct ps_record_process *process, struct ps_text *text) {
    struct ps_record_totals totals;
    size_t peaks = ps_record_peak_finish();
    ps_record_peak_totals(&totals);
    add_member(text, "{\"poolshim_recording\": ", FORMAT_VERSION);
    add_member(text, ",\n \"pid\": ", process->pid);
    add_command(text, process);
    add_member(text, ",\n \"page_bytes\": ", ps_os_page_bytes());
    add_classes(text);
    add_member(text, ",\n \"small_max_bytes\": ", ps_size_class_max_bytes);
    add_member(text, ",\n \"limit_bytes\": ", ps_size_class_max_bytes);
    add_member(text, ",\n \"usual_max_bytes\": ", ps_size_class_usual_max_bytes());
    add_member(text, ",\n \"allocations\": ", totals.made);
    uint64_t highest = peaks != 0 ? ps_record_peak_at(0)->live_bytes : 0;
    add_member(text, ",\n \"peak_live_bytes\": ", highest);
    ps_text_add(text, ",\n \"peaks\": [");
    for (size_t i = 0; i < peaks; i++) {
        ps_text_add(text, i == 0 ? "\n  " : ",\n  ");
        add_peak(text, ps_record_peak_at(i));
    }
    ps_text_add(text, "],\n \"requests\": [");
    add_requests(text);
    add_larger(text, "],\n ", totals.large_count, totals.large_bytes);
    ps_text_add(text, "}\n");
    ps_record_peak_release();
}
