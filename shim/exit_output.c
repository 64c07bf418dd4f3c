/* SPDX-License-Identifier: MIT */
/*
 * See exit_output.h. Calls the kernel only: no function that a program may have interposed, and no
 * point of cancellation. No locks; two threads that write a file of the
 * same name differ by their thread ids, the later rename wins.
 */
#include "shim/exit_output.h"

#include "pools/engine/os/files.h"
#include "pools/engine/os/signals.h"
#include "shim/report_open.h"
#include "shim/text.h"

#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define BUFFER_BYTES 1024

/* An open file, recognised after the program may have reused its number. */
struct stream {
    int fd; /* -1: none */
    dev_t device;
    ino_t inode;
};

/* Written by ps_exit_output_start, before the program has threads; read at exit. */
static struct stream kept_stderr = {.fd = -1};
static PS_SPARSE char start_directory[PATH_MAX];

static struct stream stream_of(int fd) {
    struct stat status;
    if (fd < 0 || ps_file_status(fd, &status) != 0) {
        return (struct stream){.fd = -1};
    }
    return (struct stream){.fd = fd, .device = status.st_dev, .inode = status.st_ino};
}

static bool is_same_file(struct stream a, struct stream b) {
    return a.fd >= 0 && b.fd >= 0 && a.device == b.device && a.inode == b.inode;
}

/*
 * A copy of stderr out of the program's way. Coreutils close fd 2 in an exit handler, before
 * destructors of libraries run. A high number, because programs and shells count on low ones.
 */
static int copy_stderr(void) {
    static const int lowest[] = {1000, 200, 10};
    for (size_t i = 0; i < sizeof lowest / sizeof lowest[0]; i++) {
        long fd = ps_file_copy(STDERR_FILENO, lowest[i]);
        if (fd >= 0) {
            return (int)fd;
        }
    }
    return -1;
}

void ps_exit_output_start(void) {
    static bool has_started;
    if (has_started) {
        return;
    }
    has_started = true;
    kept_stderr = stream_of(copy_stderr());
    /* A daemon's chdir("/") must not move a relative file name. */
    if (ps_syscall_failed(
            ps_syscall3(SYS_getcwd, (long)start_directory, sizeof start_directory, 0))) {
        start_directory[0] = '\0';
    }
}

const char *ps_exit_output_directory(void) { return start_directory; }

int ps_exit_output_stderr(void) {
    if (is_same_file(stream_of(kept_stderr.fd), kept_stderr)) {
        return kept_stderr.fd;
    }
    return is_same_file(stream_of(STDERR_FILENO), kept_stderr) ? STDERR_FILENO : -1;
}

void ps_signal_guard_enter(struct ps_signal_guard *guard) {
    guard->pending_before = ps_signals_pending();
    guard->blocked_before = ps_signals_block(PS_SIGNAL_BIT(SIGPIPE) | PS_SIGNAL_BIT(SIGXFSZ));
}

void ps_signal_guard_leave(struct ps_signal_guard *guard) {
    static const int signals[] = {SIGPIPE, SIGXFSZ};
    uint64_t ours = ps_signals_pending() & ~guard->pending_before;
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        if ((ours & PS_SIGNAL_BIT(signals[i])) != 0) {
            ps_signals_consume(signals[i]);
        }
    }
    ps_signals_set_blocked(guard->blocked_before);
}

/*
 * The errors of creating, writing and renaming a file. libc's strerror may allocate, and these
 * lines are also printed from inside of calls of malloc.
 */
static const char *const error_texts[] = {
    [EPERM] = "Operation not permitted",
    [ENOENT] = "No such file or directory",
    [EIO] = "Input/output error",
    [ENXIO] = "No such device or address",
    [EBADF] = "Bad file descriptor",
    [EAGAIN] = "Resource temporarily unavailable",
    [ENOMEM] = "Cannot allocate memory",
    [EACCES] = "Permission denied",
    [EBUSY] = "Device or resource busy",
    [EEXIST] = "File exists",
    [ENODEV] = "No such device",
    [ENOTDIR] = "Not a directory",
    [EISDIR] = "Is a directory",
    [EINVAL] = "Invalid argument",
    [ENFILE] = "Too many open files in system",
    [EMFILE] = "Too many open files",
    [ETXTBSY] = "Text file busy",
    [EFBIG] = "File too large",
    [ENOSPC] = "No space left on device",
    [EROFS] = "Read-only file system",
    [EPIPE] = "Broken pipe",
    [ENAMETOOLONG] = "File name too long",
    [ENOSYS] = "Function not implemented",
    [ELOOP] = "Too many levels of symbolic links",
    [EDQUOT] = "Disk quota exceeded",
};

static void add_error(struct ps_text *text, int error) {
    size_t count = sizeof error_texts / sizeof error_texts[0];
    if ((size_t)error < count && error_texts[error] != NULL) {
        ps_text_add(text, error_texts[error]);
    } else {
        ps_text_add(text, "error ");
        ps_text_add_number(text, (uint64_t)error);
    }
}

void ps_exit_output_unwritten(const char *option, const char *path, int error) {
    char buffer[BUFFER_BYTES];
    struct ps_text text;
    int fd = ps_exit_output_stderr();
    if (fd < 0) {
        return;
    }
    ps_text_start(&text, buffer, sizeof buffer, fd);
    ps_text_add(&text, "poolshim: ");
    ps_text_add(&text, option);
    ps_text_add(&text, ": cannot write ");
    ps_text_add_quoted(&text, ps_str_of(path));
    ps_text_add(&text, ": ");
    add_error(&text, error);
    ps_text_add(&text, "\n");
    ps_text_flush(&text);
}

/* ---- files ---- */

#define TEMPORARY_BYTES 48
#define FILE_MODE 0666 /* less the umask */

/* The pattern with %p and %% replaced; other % sequences are not changed. */
static void add_expanded(struct ps_text *path, const char *pattern) {
    for (; *pattern != '\0'; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'p') {
            ps_text_add_number(path, (uint64_t)ps_syscall3(SYS_getpid, 0, 0, 0));
            pattern++;
            continue;
        }
        pattern += pattern[0] == '%' && pattern[1] == '%';
        ps_text_add_str(path, (struct ps_str){.data = pattern, .length = 1});
    }
}

bool ps_report_file_is_per_process(const char *pattern) {
    for (; *pattern != '\0'; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'p') {
            return true;
        }
        pattern += pattern[0] == '%' && pattern[1] == '%';
    }
    return false;
}

int ps_report_file_path(char *out, size_t capacity, const char *pattern, const char *directory) {
    struct ps_text path;
    ps_text_start(&path, out, capacity, PS_TEXT_TO_BUFFER);
    if (pattern[0] != '/' && directory != NULL && directory[0] != '\0') {
        ps_text_add(&path, directory);
        ps_text_add(&path, "/");
    }
    add_expanded(&path, pattern);
    ps_text_add_str(&path, (struct ps_str){.data = "", .length = 1});
    return path.has_failed ? ENAMETOOLONG : 0;
}

/* The function that writes, and its argument. */
struct contents {
    ps_report_writer *write;
    const void *context;
};

/* fd: open, or an error as the kernel returns it. */
static int write_and_close(long fd, const struct contents *contents) {
    if (fd < 0) {
        return (int)-fd;
    }
    int error = contents->write((int)fd, contents->context);
    /* Closing reports what a network file system could not store. */
    long closed = ps_file_close((int)fd);
    return error != 0 ? error : (int)-closed;
}

static int write_and_rename(const struct ps_report_place *place, const struct contents *contents) {
    char temporary[TEMPORARY_BYTES];
    struct ps_text text;
    ps_text_start(&text, temporary, sizeof temporary, PS_TEXT_TO_BUFFER);
    ps_text_add(&text, ".poolshim-stats.");
    ps_text_add_number(&text, (uint64_t)ps_syscall3(SYS_gettid, 0, 0, 0));
    ps_text_add_str(&text, (struct ps_str){.data = "", .length = 1});

    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    long fd = ps_file_open(place->directory, temporary, flags, FILE_MODE);
    if (fd == -EEXIST) {
        /* Left by a process that was killed while writing and had the same id. */
        (void)ps_file_remove(place->directory, temporary);
        fd = ps_file_open(place->directory, temporary, flags, FILE_MODE);
    }
    if (fd < 0) {
        return (int)-fd;
    }
    int error = write_and_close(fd, contents);
    if (error == 0) {
        error = (int)-ps_file_rename(place->directory, temporary, place->name);
    }
    if (error != 0) {
        (void)ps_file_remove(place->directory, temporary);
    }
    return error;
}

/*
 * Anything but a regular file is written in place: renaming over /dev/null would replace it. A pipe
 * without a reader must not block the program's exit. A link in /proc may lead to the program's own
 * output, so that is appended to and not truncated.
 */
static int write_in_place(const struct ps_report_place *place, const struct contents *contents) {
    int flags = O_WRONLY | (place->is_proc ? O_APPEND : O_TRUNC);
    return write_and_close(ps_report_open(place, flags, FILE_MODE), contents);
}

static int write_to(const struct ps_report_place *place, const struct contents *contents) {
    struct stat status;
    long found = ps_file_status_at(place->directory, place->name, &status, AT_SYMLINK_NOFOLLOW);
    bool exists = found == 0;
    if (!exists && found != -ENOENT) {
        return (int)-found;
    }
    if (exists && !S_ISREG(status.st_mode)) {
        return write_in_place(place, contents);
    }
    int error = write_and_rename(place, contents);
    /* The file may be writable although its directory is not. */
    if (error != 0 && exists) {
        return write_in_place(place, contents);
    }
    return error;
}

int ps_report_file_write(const char *pattern, const char *directory, ps_report_writer *write,
                         const void *context) {
    const struct contents contents = {write, context};
    struct ps_report_place place;
    char path[PATH_MAX];
    int error = ps_report_file_path(path, sizeof path, pattern, directory);
    if (error == 0) {
        error = ps_report_place_find(&place, path, sizeof path);
    }
    if (error == 0) {
        error = write_to(&place, &contents);
        ps_report_place_close(&place);
    }
    return error;
}
