/* SPDX-License-Identifier: MIT */
/*
 * Writes a report to a file that a reader may open at any moment: to a temporary file beside it,
 * then renamed. Called by shim/stats.c and shim/record.c at exit, and by poolshim_stats_write.
 * Allocates nothing. No locks.
 */
#ifndef PS_SHIM_REPORT_FILE_H
#define PS_SHIM_REPORT_FILE_H

#include <stdbool.h>

/* Writes the contents to an open file; returns 0 or an errno. */
typedef int ps_report_writer(int fd, const void *context);

/*
 * Writes a file named by `pattern`, in which %p becomes the process id and %% a percent sign, below
 * `directory` when the name is relative and directory not NULL. Anything but a regular file is
 * written in place. Returns 0 or an errno.
 */
int ps_report_file_write(const char *pattern, const char *directory, ps_report_writer *write,
                         const void *context);

/* True when names made from the pattern differ from process to process. */
bool ps_report_file_is_per_process(const char *pattern);

#endif
