/* SPDX-License-Identifier: MIT */
/*
 * See trace.h. Calls the kernel only: the first allocation may come before libc is initialised.
 */
#include "shim/trace.h"

#include "pools/engine/os/syscall.h"
#include "pools/engine/record/trace.h"
#include "shim/config.h"
#include "shim/exit_output.h"
#include "shim/report_open.h"
#include "shim/trace_tables.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

/* Written under the initialisation lock, before the program has threads. */
static struct ps_trace_header *header;
static long open_error;
static long start_process;

PS_AT_START void ps_trace_open(struct ps_config *config) {
    char path[PATH_MAX];
    const char *pattern = ps_shim_settings()->trace_path;
    if (!config->record || pattern[0] == '\0') {
        return;
    }
    start_process = ps_syscall3(SYS_getpid, 0, 0, 0);
    long result = -ps_report_file_path(path, sizeof path, pattern, NULL);
    if (result == 0) {
        result = ps_report_map(path, sizeof path, config->trace_bytes);
    }
    if (ps_syscall_failed(result)) {
        open_error = -result;
        config->record = false;
        return;
    }
    /* Page by page: kernels with large folios map 2 MiB at once, and the peak RSS would include
     * pages that were not written to. */
    (void)ps_syscall3(SYS_madvise, result, (long)config->trace_bytes, MADV_RANDOM);
    config->trace_memory = header = (struct ps_trace_header *)result;
}

PS_AT_START void ps_trace_at_start(void) {
    const char *pattern = ps_shim_settings()->trace_path;
    if (!ps_shim_settings()->engine.record || pattern[0] == '\0') {
        return;
    }
    int saved_errno = errno;
    ps_exit_output_start();
    if (header != NULL && header->magic != PS_TRACE_MAGIC) {
        open_error = ENOMEM;
    }
    if (open_error != 0) {
        ps_exit_output_unwritten("POOLSHIM_TRACE", pattern, (int)open_error);
    }
    errno = saved_errno;
}

PS_AT_START void ps_trace_at_exit(void) {
    if (header == NULL || ps_syscall3(SYS_getpid, 0, 0, 0) != start_process) {
        return;
    }
    ps_trace_note_peak();
    char *at = (char *)header + header->maps_begin;
    char *end = (char *)header + header->maps_end - 1; /* a zero ends the text */
    long fd =
        ps_syscall6(SYS_openat, AT_FDCWD, (long)"/proc/self/maps", O_RDONLY | O_CLOEXEC, 0, 0, 0);
    if (ps_syscall_failed(fd)) {
        return;
    }
    while (at < end) { /* ends: each turn reads something */
        long got = ps_syscall3(SYS_read, fd, (long)at, end - at);
        if (got <= 0) {
            break;
        }
        at += got;
    }
    (void)ps_syscall3(SYS_close, fd, 0, 0);
    header->unwind_bytes = ps_trace_tables_resident((char *)header + header->maps_begin);
}
