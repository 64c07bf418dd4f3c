/* SPDX-License-Identifier: MIT */
/*
 * The parts of reports on guarded samples and memory tags: lines, places, call sites. By write(2)
 * only, because most of this runs in a signal handler. No locks; if several threads fault at once,
 * the first reports and blocks the others. Callers: guard_report.c, mte_report.c.
 */
#ifndef PS_HARDEN_REPORT_H
#define PS_HARDEN_REPORT_H

#include "pools/engine/harden/guard.h"

#define PS_REPORT_LINE_BYTES 512

/* A line that is being written. */
struct ps_report {
    char text[PS_REPORT_LINE_BYTES];
    size_t length;
};

/* Begin as empty: {.length = 0}. A line is cut at its length. */
void ps_report_add_text(struct ps_report *report, const char *text);
void ps_report_add_number(struct ps_report *report, uintptr_t value, unsigned base);
void ps_report_add_address(struct ps_report *report, const void *address);

/* ", 12 bytes into a block of 64 at 0x..." */
void ps_report_add_place(struct ps_report *report, const char *address, const char *block,
                         size_t bytes);

/* Writes the line and empties it. */
void ps_report_end_line(struct ps_report *report);

/* Writes the event and its call sites, a line each. */
void ps_report_write_trace(const char *what, const struct ps_guard_trace *trace);

/* The same of the calling thread; instruction: that which has faulted, or 0 in a call. */
void ps_report_write_here(uintptr_t instruction);

/* " (read)", " (write)", or nothing. */
const char *ps_report_access(const struct ps_fault *fault);

/* Returns true when the calling thread is to report a fault, and then to call ps_report_done;
 * otherwise blocks until the other thread's report ends. */
bool ps_report_begin(void);
void ps_report_done(void);

#endif
