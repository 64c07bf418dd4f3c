/* SPDX-License-Identifier: MIT */
/*
 * See profile.h.
 */
#include "shim/profile.h"

#include "pools/engine/os/syscall.h"
#include "pools/engine/profile/profile.h"
#include "shim/config.h"
#include "shim/exit_output.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

static long start_process; /* written by the constructor */

static long process_now(void) { return ps_syscall3(SYS_getpid, 0, 0, 0); }

static bool is_on(void) { return ps_profile_settings.interval_bytes != 0; }

PS_AT_START void ps_profile_at_start(void) {
    const struct ps_settings *settings = ps_shim_settings();
    if (!settings->engine.profile) {
        return;
    }
    ps_exit_output_start();
    start_process = process_now();
    if (!is_on()) {
        ps_exit_output_unwritten("POOLSHIM_PROFILE", settings->profile_path, ENOMEM);
    }
}

int ps_profile_write_file(const char *pattern) {
    if (!is_on()) {
        return ENOTSUP;
    }
    const char *directory = pattern == NULL ? ps_exit_output_directory() : NULL;
    const char *path = pattern == NULL ? ps_shim_settings()->profile_path : pattern;
    struct ps_signal_guard guard;
    ps_signal_guard_enter(&guard);
    int error = ps_report_file_write(path, directory, ps_pprof_write, NULL);
    ps_signal_guard_leave(&guard);
    return error;
}

PS_AT_START void ps_profile_at_exit(void) {
    if (!is_on()) {
        return;
    }
    const char *path = ps_shim_settings()->profile_path;
    bool is_parents = process_now() != start_process;
    if (is_parents && !ps_report_file_is_per_process(path)) {
        return;
    }
    int saved_errno = errno;
    int error = ps_profile_write_file(NULL);
    if (error != 0) {
        ps_exit_output_unwritten("POOLSHIM_PROFILE", path, error);
    }
    errno = saved_errno;
}
