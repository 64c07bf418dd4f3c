/* SPDX-License-Identifier: MIT */
/*
 * See record.h. No locks of its own.
 */
#include "shim/record.h"

#include "pools/engine/os/syscall.h"
#include "pools/engine/record/record.h"
#include "shim/config.h"
#include "shim/exit_output.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define BUFFER_BYTES 4096
#define COMMAND_BYTES 4096 /* of the arguments; the rest is left out */

/* Written by ps_record_at_start, before the program has threads and may change its own title. */
static PS_SPARSE char command[COMMAND_BYTES + 1];
static size_t command_bytes;
static uint64_t start_pid;

static uint64_t pid_now(void) { return (uint64_t)ps_syscall3(SYS_getpid, 0, 0, 0); }

/* Without /proc the command is empty. */
static void read_command(void) {
    long fd = ps_syscall6(SYS_openat, AT_FDCWD, (long)"/proc/self/cmdline", O_RDONLY | O_CLOEXEC, 0,
                          0, 0);
    if (!ps_syscall_failed(fd)) {
        long got = ps_syscall3(SYS_read, fd, (long)command, COMMAND_BYTES);
        command_bytes = ps_syscall_failed(got) ? 0 : (size_t)got;
        (void)ps_syscall3(SYS_close, fd, 0, 0);
    }
}

PS_AT_START void ps_record_at_start(void) {
    const struct ps_settings *settings = ps_shim_settings();
    if (!settings->engine.record || settings->record_path[0] == '\0') {
        return;
    }
    ps_exit_output_start();
    start_pid = pid_now();
    read_command();
    if (!ps_record_is_on()) {
        ps_exit_output_unwritten("POOLSHIM_RECORD", settings->record_path, ENOMEM);
    }
}

static int write_recording(int fd, const void *context) {
    char buffer[BUFFER_BYTES];
    struct ps_text text;
    ps_text_start(&text, buffer, sizeof buffer, fd);
    ps_record_print(context, &text);
    return ps_text_flush(&text) ? 0 : text.error;
}

PS_AT_START void ps_record_at_exit(void) {
    const struct ps_settings *settings = ps_shim_settings();
    if (!ps_record_is_on() || settings->record_path[0] == '\0') {
        return;
    }
    const struct ps_record_process process = {pid_now(), command, command_bytes};
    if (process.pid != start_pid && !ps_report_file_is_per_process(settings->record_path)) {
        return;
    }
    int saved_errno = errno;
    struct ps_signal_guard guard;
    ps_signal_guard_enter(&guard);
    int error = ps_report_file_write(settings->record_path, ps_exit_output_directory(),
                                     write_recording, &process);
    if (error != 0) {
        ps_exit_output_unwritten("POOLSHIM_RECORD", settings->record_path, error);
    }
    ps_signal_guard_leave(&guard);
    errno = saved_errno;
}
