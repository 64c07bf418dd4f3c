/* SPDX-License-Identifier: MIT */
/*
 * Writing a report to a file that a reader may open at any moment: into a temporary file beside
 * it, then renamed. Called by shim/stats.c at exit and by poolshim_stats_write. No locks; two
 * threads that write the same name are told apart by their thread ids, the later rename wins.
 */
#include "pools/os/syscall.h"
#include "shim/stats.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define BUFFER_BYTES 1024
#define TEMPORARY_BYTES 48
#define FILE_MODE 0666 /* less the umask */

/* The pattern with %p and %% replaced; other % sequences stay as they are. */
static void add_expanded(struct ps_text *path, const char *pattern) {
    for (; *pattern != '\0'; pattern++) {
        if (pattern[0] == '%' && pattern[1] == 'p') {
            ps_text_add_number(path, (uint64_t)ps_syscall3(SYS_getpid, 0, 0, 0));
            pattern++;
            continue;
        }
        pattern += pattern[0] == '%' && pattern[1] == '%';
        ps_text_add_slice(path, (struct ps_slice){.data = pattern, .length = 1});
    }
}

static int make_path(char *out, size_t capacity, const char *pattern, const char *directory) {
    struct ps_text path;
    ps_text_start(&path, out, capacity, PS_TEXT_TO_BUFFER);
    if (pattern[0] != '/' && directory != NULL && directory[0] != '\0') {
        ps_text_add(&path, directory);
        ps_text_add(&path, "/");
    }
    add_expanded(&path, pattern);
    ps_text_add_slice(&path, (struct ps_slice){.data = "", .length = 1});
    return path.has_failed ? ENAMETOOLONG : 0;
}

static bool ends_in_json(const char *path) {
    static const char suffix[] = ".json";
    size_t length = strlen(path);
    return length >= sizeof suffix - 1 && strcmp(path + length - (sizeof suffix - 1), suffix) == 0;
}

static int write_report(int fd, bool is_json) {
    char buffer[BUFFER_BYTES];
    struct ps_report report;
    struct ps_text text;
    ps_report_take(&report);
    ps_text_start(&text, buffer, sizeof buffer, fd);
    if (is_json) {
        ps_report_print_json(&report, &text);
    } else {
        ps_report_print_table(&report, &text);
    }
    return ps_text_flush(&text) ? 0 : text.error;
}

static int write_and_close(int fd, bool is_json) {
    if (fd < 0) {
        return errno;
    }
    int error = write_report(fd, is_json);
    /* close reports what a network file system could not store. */
    if (close(fd) != 0 && error == 0) {
        error = errno;
    }
    return error;
}

static int write_and_rename(int directory, const char *name, bool is_json) {
    char temporary[TEMPORARY_BYTES];
    struct ps_text text;
    ps_text_start(&text, temporary, sizeof temporary, PS_TEXT_TO_BUFFER);
    ps_text_add(&text, ".poolshim-stats.");
    ps_text_add_number(&text, (uint64_t)ps_syscall3(SYS_gettid, 0, 0, 0));
    ps_text_add_slice(&text, (struct ps_slice){.data = "", .length = 1});

    const int flags = O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC;
    int fd = openat(directory, temporary, flags, FILE_MODE);
    if (fd < 0 && errno == EEXIST) {
        /* Left by a process that was killed while writing and had the same id. */
        unlinkat(directory, temporary, 0);
        fd = openat(directory, temporary, flags, FILE_MODE);
    }
    if (fd < 0) {
        return errno;
    }
    int error = write_and_close(fd, is_json);
    if (error == 0 && renameat(directory, temporary, directory, name) != 0) {
        error = errno;
    }
    if (error != 0) {
        unlinkat(directory, temporary, 0);
    }
    return error;
}

/*
 * Anything but a regular file is written where it is: renaming over /dev/null would replace it.
 * O_NONBLOCK: a named pipe without a reader must not hang the program's exit. What a link in /dev
 * or /proc leads to may be the program's own output, so it is appended to and not cut.
 */
static int write_in_place(int directory, const char *name, const char *path, bool is_json) {
    struct stat status;
    bool is_regular = fstatat(directory, name, &status, 0) == 0 && S_ISREG(status.st_mode);
    bool is_device = strncmp(path, "/dev/", 5) == 0 || strncmp(path, "/proc/", 6) == 0;
    int how = is_regular && !is_device ? O_TRUNC : O_APPEND;
    int flags = O_WRONLY | O_CREAT | O_NONBLOCK | O_NOCTTY | O_CLOEXEC | how;
    return write_and_close(openat(directory, name, flags, FILE_MODE), is_json);
}

static int write_named(int directory, const char *name, const char *path, bool is_json) {
    struct stat status;
    bool exists = fstatat(directory, name, &status, AT_SYMLINK_NOFOLLOW) == 0;
    if (!exists && errno != ENOENT) {
        return errno;
    }
    if (exists && !S_ISREG(status.st_mode)) {
        return write_in_place(directory, name, path, is_json);
    }
    int error = write_and_rename(directory, name, is_json);
    /* The file may be writable where its directory is not. */
    if (error != 0 && exists) {
        return write_in_place(directory, name, path, is_json);
    }
    return error;
}

int ps_stats_write_file(const char *pattern, const char *directory) {
    char path[PATH_MAX];
    int error = make_path(path, sizeof path, pattern, directory);
    if (error != 0) {
        return error;
    }
    bool is_json = ends_in_json(path);
    char *slash = strrchr(path, '/');
    const char *name = slash == NULL ? path : slash + 1;
    char last = '\0';
    /* "a/b" is b in "a/"; the slash stays, so that "/b" is b in "/". */
    if (slash != NULL) {
        last = *name;
        path[name - path] = '\0';
    }
    int parent = open(slash == NULL ? "." : path, O_PATH | O_DIRECTORY | O_CLOEXEC);
    error = parent < 0 ? errno : 0;
    if (slash != NULL) {
        path[name - path] = last;
    }
    if (error == 0) {
        error = *name == '\0' ? EISDIR : write_named(parent, name, path, is_json);
        close(parent);
    }
    return error;
}
