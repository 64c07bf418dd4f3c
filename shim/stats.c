/* SPDX-License-Identifier: MIT */
/*
 * Taking a report, and printing it when the process ends. Called by the library's constructor and
 * destructor and by introspection; calls the census, /proc and the printers. No locks.
 */
#include "shim/stats.h"

#include "pools/engine/base/atomic.h"
#include "pools/engine/os/os.h"
#include "pools/engine/os/syscall.h"
#include "shim/config.h"
#include "shim/exit_output.h"

#include <errno.h>
#include <string.h>

#define BUFFER_BYTES 1024

#define ROW(section, key, unit, field, label, has_offset)                                          \
    {#section, #key, label, PS_UNIT_##unit, offsetof(struct ps_report, field), has_offset},

const struct ps_report_row ps_report_rows[] = {
#define PS_FIGURE(section, key, unit, field, metric, label, help)                                  \
    ROW(section, key, unit, field, label, 0)
#define PS_FIGURE_IF(has, section, key, unit, field, metric, label, help)                          \
    ROW(section, key, unit, field, label, offsetof(struct ps_report, has))
#define PS_WORD(section, key, unit, name, word, metric, label, help)                               \
    ROW(section, key, unit, census.name, label, 0)
#include "pools/engine/record/figures.def"
};
const size_t ps_report_row_count = sizeof ps_report_rows / sizeof ps_report_rows[0];

const char *ps_report_word(const struct ps_report *report, const struct ps_report_row *row) {
    return *(const char *const *)((const char *)report + row->offset);
}

uint64_t ps_report_value(const struct ps_report *report, const struct ps_report_row *row) {
    return *(const uint64_t *)((const char *)report + row->offset);
}

bool ps_report_is_known(const struct ps_report *report, const struct ps_report_row *row) {
    if (row->unit == PS_UNIT_WORD) {
        return ps_report_word(report, row) != NULL;
    }
    return row->has_offset == 0 || *(const bool *)((const char *)report + row->has_offset);
}

uint64_t ps_report_class_waste(const struct ps_census_class *class) {
    uint64_t live = class->live_blocks * class->block_bytes;
    /* A snapshot is not atomic across threads: blocks may be counted before their slab. */
    return class->slab_bytes > live ? class->slab_bytes - live : 0;
}

/* The base of the rates. Written before the program has threads, and by the one thread that
 * writes a periodic report. relaxed, all: a rate of mixed words is a wrong figure, once. */
static struct {
    uint64_t x_ms;
    uint64_t x_malloc_count;
    uint64_t x_free_count;
} base;

void ps_report_set_base(const struct ps_report *report, uint64_t now_ms) {
    ps_store_relaxed(&base.x_ms, now_ms);
    ps_store_relaxed(&base.x_malloc_count, report->census.malloc_count);
    ps_store_relaxed(&base.x_free_count, report->census.free_count);
}

static uint64_t rate_of(uint64_t count, uint64_t before, uint64_t ms) {
    return count > before ? (count - before) * 1000 / ms : 0;
}

static void add_rates(struct ps_report *report) {
    uint64_t now_ms = ps_os_now_ms();
    uint64_t since_ms = ps_load_relaxed(&base.x_ms);
    uint64_t ms = now_ms > since_ms ? now_ms - since_ms : 1;
    report->malloc_rate =
        rate_of(report->census.malloc_count, ps_load_relaxed(&base.x_malloc_count), ms);
    report->free_rate = rate_of(report->census.free_count, ps_load_relaxed(&base.x_free_count), ms);
}

static void complete(struct ps_report *report) {
    ps_process_memory_read(&report->process, "/proc/self");
    const struct ps_census *census = &report->census;
    for (uint32_t i = 0; i < census->class_count; i++) {
        report->small_live_blocks += census->classes[i].live_blocks;
        report->small_slabs += census->classes[i].slabs;
        report->small_waste_bytes += ps_report_class_waste(&census->classes[i]);
    }
    report->live_bytes = census->small_live_bytes + census->run_live_bytes +
                         census->map_live_bytes + census->guard_live_bytes;
    report->pid = (uint64_t)ps_syscall3(SYS_getpid, 0, 0, 0);
    report->program = program_invocation_short_name;
    add_rates(report);
    ps_report_take_heaps(report);
}

void ps_report_take(struct ps_report *report) {
    memset(report, 0, sizeof *report);
    ps_census_take(&report->census);
    complete(report);
}

void ps_report_peek(struct ps_report *report) {
    memset(report, 0, sizeof *report);
    ps_census_peek(&report->census);
    complete(report);
}

int ps_stats_write_table(int fd) {
    char buffer[BUFFER_BYTES];
    struct ps_report report;
    struct ps_text text;
    ps_report_take(&report);
    ps_text_start(&text, buffer, sizeof buffer, fd);
    ps_report_print_table(&report, &text);
    return ps_text_flush(&text) ? 0 : text.error;
}

/* The writer of a file's contents; context: not NULL for JSON. */
static int write_report(int fd, const void *context) {
    char buffer[BUFFER_BYTES];
    struct ps_report report;
    struct ps_text text;
    ps_report_take(&report);
    ps_text_start(&text, buffer, sizeof buffer, fd);
    if (context != NULL) {
        ps_report_print_json(&report, &text);
    } else {
        ps_report_print_table(&report, &text);
    }
    return ps_text_flush(&text) ? 0 : text.error;
}

bool ps_stats_is_json(const char *name) {
    static const char suffix[] = ".json";
    size_t length = strlen(name);
    return length >= sizeof suffix - 1 && strcmp(name + length - (sizeof suffix - 1), suffix) == 0;
}

int ps_stats_write_file(const char *pattern, const char *directory) {
    const char *json = ps_stats_is_json(pattern) ? "json" : NULL;
    return ps_report_file_write(pattern, directory, write_report, json);
}

static uint64_t start_ms; /* constant after the start */

uint64_t ps_stats_start_ms(void) { return start_ms; }

PS_AT_START void ps_stats_at_start(void) {
    const struct ps_settings *settings = ps_shim_settings();
    start_ms = ps_os_now_ms();
    ps_store_relaxed(&base.x_ms, start_ms);
    if (settings->stats_target != PS_STATS_OFF || settings->stats_every_s != 0 ||
        settings->dump_signal != PS_DUMP_OFF) {
        ps_exit_output_start();
        ps_stats_live_start();
    }
}

PS_AT_START void ps_stats_at_exit(void) {
    const struct ps_settings *settings = ps_shim_settings();
    if (settings->stats_target == PS_STATS_OFF) {
        return;
    }
    int saved_errno = errno;
    struct ps_signal_guard guard;
    ps_signal_guard_enter(&guard);
    if (settings->stats_target == PS_STATS_FILE) {
        int error = ps_stats_write_file(settings->stats_path, ps_exit_output_directory());
        if (error != 0) {
            ps_exit_output_unwritten("POOLSHIM_STATS", settings->stats_path, error);
        }
    } else {
        int fd = ps_exit_output_stderr();
        if (fd >= 0) {
            (void)ps_stats_write_table(fd);
        }
    }
    ps_signal_guard_leave(&guard);
    errno = saved_errno;
}
