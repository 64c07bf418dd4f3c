/* SPDX-License-Identifier: MIT */
/*
 * See report.h.
 */
#include "pools/engine/harden/report.h"

#include "pools/engine/base/digits.h"
#include "pools/engine/os/lock.h"
#include "pools/engine/os/os.h"

#define DONE UINT32_MAX

static uint32_t x_reporter; /* 0, id of the reporting thread, or DONE */

void ps_report_add_text(struct ps_report *report, const char *text) {
    while (*text != '\0' && report->length < PS_REPORT_LINE_BYTES - 1) {
        report->text[report->length++] = *text++;
    }
}

void ps_report_add_number(struct ps_report *report, uintptr_t value, unsigned base) {
    char digits[PS_DIGITS_BYTES];
    ps_report_add_text(report, ps_digits(digits, value, base));
}

void ps_report_add_address(struct ps_report *report, const void *address) {
    ps_report_add_text(report, "0x");
    ps_report_add_number(report, (uintptr_t)address, 16);
}

void ps_report_end_line(struct ps_report *report) {
    report->text[report->length++] = '\n';
    ps_os_write(2, report->text, report->length);
    report->length = 0;
}

void ps_report_add_place(struct ps_report *report, const char *address, const char *block,
                         size_t bytes) {
    const char *end = block + bytes;
    const char *where = " into";
    uintptr_t distance = (uintptr_t)(address - block);
    if (address < block) {
        where = " before";
        distance = (uintptr_t)(block - address);
    } else if (address >= end && address != block) {
        where = " after";
        distance = (uintptr_t)(address - end) + 1; /* the first byte after the block is 1 after */
    }
    ps_report_add_text(report, ", ");
    ps_report_add_number(report, distance, 10);
    ps_report_add_text(report, distance == 1 ? " byte" : " bytes");
    ps_report_add_text(report, where);
    ps_report_add_text(report, " a block of ");
    ps_report_add_number(report, bytes, 10);
    ps_report_add_text(report, " at ");
    ps_report_add_address(report, block);
}

/* Default hooks of an engine without a shim: the report has the address only. */
__attribute__((weak)) size_t ps_guard_trace(uintptr_t *sites, size_t limit, uintptr_t instruction) {
    (void)sites;
    (void)limit;
    (void)instruction;
    return 0;
}

__attribute__((weak)) void ps_guard_name(uintptr_t site, char *text, size_t capacity) {
    (void)site;
    text[0] = '\0';
    (void)capacity;
}

void ps_report_write_trace(const char *what, const struct ps_guard_trace *trace) {
    struct ps_report line = {.length = 0};
    ps_report_add_text(&line, "  ");
    ps_report_add_text(&line, what);
    ps_report_add_text(&line, " by thread ");
    ps_report_add_number(&line, trace->thread, 10);
    ps_report_add_text(&line, trace->count != 0 ? " at:" : ", no trace");
    ps_report_end_line(&line);
    for (size_t i = 0; i < trace->count && i < PS_GUARD_FRAMES; i++) {
        char name[PS_REPORT_LINE_BYTES - 32];
        ps_guard_name(trace->sites[i], name, sizeof name);
        ps_report_add_text(&line, "    ");
        ps_report_add_address(&line, (const void *)trace->sites[i]);
        ps_report_add_text(&line, " ");
        ps_report_add_text(&line, name);
        ps_report_end_line(&line);
    }
}

void ps_report_write_here(uintptr_t instruction) {
    struct ps_guard_trace here = {.thread = ps_os_thread_number()};
    here.count = (uint32_t)ps_guard_trace(here.sites, PS_GUARD_FRAMES, instruction);
    if (here.count == 0 && instruction != 0) {
        here.sites[here.count++] = instruction;
    }
    ps_report_write_trace(instruction != 0 ? "touched" : "now called", &here);
}

const char *ps_report_access(const struct ps_fault *fault) {
    static const char *const accesses[] = {"", " (read)", " (write)"};
    return accesses[fault->access];
}

bool ps_report_begin(void) {
    uint32_t reporter = 0;
    /* acquire: relaxed is enough; the winner only writes. */
    if (ps_cas_strong_acquire(&x_reporter, &reporter, ps_lock_self())) {
        return true;
    }
    while (reporter != DONE && reporter != ps_lock_self()) { /* ends with the report */
        ps_cpu_relax();
        reporter = ps_load_relaxed(&x_reporter); /* relaxed: nothing is read after it */
    }
    return false;
}

void ps_report_done(void) {
    ps_store_relaxed(&x_reporter, DONE); /* relaxed: nothing is read after it */
}
