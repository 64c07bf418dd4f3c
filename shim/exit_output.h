/* SPDX-License-Identifier: MIT */
/*
 * Output of reports: at the end of the process, independent of the program's descriptors and
 * directory at that time; and to files, at any time. Owns the copy of stderr that outlives the
 * program's own, and the directory at the start. Called by the library's constructor and
 * destructor, stats.c, record.c, profile.c. Allocates nothing. No locks.
 */
#ifndef PS_SHIM_EXIT_OUTPUT_H
#define PS_SHIM_EXIT_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* ---- the end of the process ---- */

/* Called from the constructor, when something will be written at the end; a second call does
 * nothing. Preserves errno. */
void ps_exit_output_start(void);

/* The copy of stderr, or stderr itself when the program closed the copy; -1 when neither is
 * left. */
int ps_exit_output_stderr(void);

/* The directory at the start, to which relative names refer. "" when unknown. */
const char *ps_exit_output_directory(void);

/* "poolshim: <option>: cannot write "<path>": <error>", on stderr. */
void ps_exit_output_unwritten(const char *option, const char *path, int error);

/*
 * Block, and unblock, signals of a write. Writing to a pipe without a reader, or beyond the
 * file-size limit, raises a signal that would change the program's exit status; the second call
 * consumes it if our write raised it.
 */
struct ps_signal_guard {
    uint64_t blocked_before;
    uint64_t pending_before;
};

void ps_signal_guard_enter(struct ps_signal_guard *guard);
void ps_signal_guard_leave(struct ps_signal_guard *guard);

/* ---- files that a reader may open at any moment ---- */

/* Writes the contents to an open file; returns 0 or an errno. */
typedef int ps_report_writer(int fd, const void *context);

/*
 * Writes a temporary file and renames it. The name is `pattern`, in which %p becomes the process id
 * and %% a percent sign, below `directory` when it is relative and directory not NULL. Anything but
 * a regular file is written in place. A link, a pipe or a file that another user has put there is
 * refused (report_open.h): EACCES. Returns 0 or an errno.
 */
int ps_report_file_write(const char *pattern, const char *directory, ps_report_writer *write,
                         const void *context);

/* The name of the file that the above writes. Returns 0 or an errno. */
int ps_report_file_path(char *out, size_t capacity, const char *pattern, const char *directory);

/* True when names made from the pattern differ from process to process. */
bool ps_report_file_is_per_process(const char *pattern);

#endif
