/* SPDX-License-Identifier: MIT */
/*
 * See report_open.h. The rules are those of the kernel's fs.protected_symlinks, protected_regular
 * and protected_fifos, which need not be set and apply to sticky directories only;
 * scripts/poolshim_cli/foreign/paths.py has them for the files of the command.
 */
#include "shim/report_open.h"

#include "pools/engine/os/files.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/mman.h>

#define LINKS_LIMIT 40 /* as many as the kernel follows */
#define HANDLE (O_PATH | O_CLOEXEC)

static bool has_status(long fd, struct stat *status) {
    return ps_file_status((int)fd, status) == 0;
}

static bool is_ours(uid_t owner) {
    return owner == 0 || owner == (uid_t)ps_syscall3(SYS_geteuid, 0, 0, 0);
}

/* True when users other than this one and root may put something there. */
static bool is_shared(const struct stat *directory) {
    return (directory->st_mode & (S_IWGRP | S_IWOTH)) != 0 || !is_ours(directory->st_uid);
}

static bool is_trap(const struct stat *file, const struct stat *directory, bool is_mapped) {
    bool is_theirs = !is_ours(file->st_uid) && (is_mapped || file->st_uid != directory->st_uid);
    bool has_more_names = S_ISREG(file->st_mode) && file->st_nlink > 1;
    return is_shared(directory) && (is_theirs || has_more_names);
}

/* ---- the walk ---- */

static bool is_in_proc(long directory) {
    struct stat here;
    struct stat proc;
    long fd = ps_file_open(AT_FDCWD, "/proc/self", HANDLE, 0);
    bool is_same = fd >= 0 && has_status(fd, &proc) && has_status(directory, &here) &&
                   proc.st_dev == here.st_dev;
    if (fd >= 0) {
        (void)ps_file_close((int)fd);
    }
    return is_same;
}

/* Goes on to another directory. */
static int go_to(struct ps_report_place *place, long directory) {
    if (ps_syscall_failed(directory)) {
        return (int)-directory;
    }
    ps_report_place_close(place);
    place->directory = (int)directory;
    place->is_proc = is_in_proc(directory);
    return 0;
}

static int go_into(struct ps_report_place *place, const char *name) {
    return go_to(place, ps_file_open(place->directory, name, HANDLE | O_DIRECTORY, 0));
}

/* Replaces the path by the target of a link and the rest of the path. */
static int read_link(struct ps_report_place *place, long link, char *path, size_t capacity,
                     const char *rest) {
    size_t rest_bytes = strlen(rest) + 1;
    char *kept = path + capacity - rest_bytes;
    memmove(kept, rest, rest_bytes);
    long got = ps_syscall6(SYS_readlinkat, link, (long)"", (long)path, kept - path, 0, 0);
    if (ps_syscall_failed(got)) {
        return (int)-got;
    }
    if (got == kept - path) {
        return ENAMETOOLONG;
    }
    memmove(path + got, kept, rest_bytes);
    return path[0] == '/' ? go_into(place, "/") : 0;
}

static bool is_followed(const struct ps_report_place *place, const struct stat *link) {
    struct stat here;
    return is_ours(link->st_uid) || (has_status(place->directory, &here) && !is_shared(&here));
}

/* The beginning of the next word; at the end of the path the terminator. */
static char *next_word(char *at) {
    while (at[0] == '/' || (at[0] == '.' && (at[1] == '/' || at[1] == '\0'))) {
        at++;
    }
    return at;
}

/* Kinds of words of a path. */
enum word { DIRECTORY, LINK, LAST, REFUSED };

/* Opens the word without following it; a directory or a link is left open in *handle. */
static enum word open_word(const struct ps_report_place *place, const char *word, bool is_last,
                           long *handle, int *error) {
    struct stat status;
    *handle = ps_file_open(place->directory, word, HANDLE | O_NOFOLLOW, 0);
    if (ps_syscall_failed(*handle)) {
        *error = (int)-*handle;
        return is_last && *error == ENOENT ? LAST : REFUSED;
    }
    *error = has_status(*handle, &status) ? 0 : EIO;
    if (*error == 0 && S_ISLNK(status.st_mode)) {
        if (is_followed(place, &status)) {
            return LINK;
        }
        *error = EACCES;
    } else if (*error == 0 && S_ISDIR(status.st_mode)) {
        return DIRECTORY;
    } else if (*error == 0 && is_last) {
        (void)ps_file_close((int)*handle);
        return LAST;
    }
    (void)ps_file_close((int)*handle);
    *error = *error != 0 ? *error : ENOTDIR;
    return REFUSED;
}

/* Takes one word of the path at *at. Returns an errno, or 0; *is_found at the last word. */
static int take_word(struct ps_report_place *place, char *path, size_t capacity, char **at,
                     bool *is_found) {
    char *end = *at + strcspn(*at, "/");
    char separator = *end;
    bool is_last = separator == '\0';
    long handle = -1;
    int error = 0;
    *end = '\0';
    bool is_up = strcmp(*at, "..") == 0;
    *is_found = is_last && place->is_proc && !is_up;
    if (*is_found) {
        return 0;
    }
    enum word kind = DIRECTORY;
    if (is_up || place->is_proc) { /* a link of the kernel is followed by the kernel */
        handle = ps_file_open(place->directory, *at, HANDLE | O_DIRECTORY, 0);
    } else {
        kind = open_word(place, *at, is_last, &handle, &error);
    }
    *end = separator;
    *is_found = kind == LAST;
    if (kind == LAST || kind == REFUSED) {
        return kind == LAST ? 0 : error;
    }
    if (kind == DIRECTORY) {
        *at = end;
        return go_to(place, handle);
    }
    error = read_link(place, handle, path, capacity, end);
    (void)ps_file_close((int)handle);
    *at = path;
    return error;
}

int ps_report_place_find(struct ps_report_place *place, char *path, size_t capacity) {
    char *at = path;
    bool is_found = false;
    place->directory = -1;
    int error =
        go_to(place, ps_file_open(AT_FDCWD, path[0] == '/' ? "/" : ".", HANDLE | O_DIRECTORY, 0));
    for (int links = 0; error == 0 && !is_found; links += at == path) {
        at = next_word(at);
        error = *at == '\0'           ? EISDIR
                : links > LINKS_LIMIT ? ELOOP
                                      : take_word(place, path, capacity, &at, &is_found);
    }
    place->name = at;
    if (error != 0) {
        ps_report_place_close(place);
    }
    return error;
}

void ps_report_place_close(struct ps_report_place *place) {
    if (place->directory >= 0) {
        (void)ps_file_close(place->directory);
    }
    place->directory = -1;
}

/* ---- the file ---- */

static long check_open(long fd, const struct ps_report_place *place, int flags) {
    struct stat file;
    struct stat directory;
    if (!has_status(fd, &file) || !has_status(place->directory, &directory)) {
        return -EIO;
    }
    if (!place->is_proc && is_trap(&file, &directory, (flags & O_RDWR) != 0)) {
        return -EACCES;
    }
    if ((flags & O_TRUNC) != 0 && S_ISREG(file.st_mode)) {
        return ps_syscall3(SYS_ftruncate, fd, 0, 0);
    }
    return 0;
}

long ps_report_open(const struct ps_report_place *place, int flags, unsigned mode) {
    const int common = O_NOCTTY | O_NONBLOCK | O_CLOEXEC | (flags & ~O_TRUNC);
    long fd =
        ps_file_open(place->directory, place->name, common | O_CREAT | O_EXCL | O_NOFOLLOW, mode);
    if (fd != -EEXIST) {
        return fd;
    }
    fd = ps_file_open(place->directory, place->name, common | (place->is_proc ? 0 : O_NOFOLLOW), 0);
    if (ps_syscall_failed(fd)) {
        return fd;
    }
    long error = check_open(fd, place, flags);
    if (error != 0) {
        (void)ps_file_close((int)fd);
        return error;
    }
    return fd;
}

/* For file systems without fallocate. */
static long write_zeroes(long fd, size_t bytes) {
    static const char zeroes[4096];
    for (size_t at = 0; at < bytes;) {
        size_t length = bytes - at < sizeof zeroes ? bytes - at : sizeof zeroes;
        long got = ps_syscall6(SYS_pwrite64, fd, (long)zeroes, (long)length, (long)at, 0, 0);
        if (got <= 0) {
            return got != 0 ? got : -EIO;
        }
        at += (size_t)got;
    }
    return 0;
}

long ps_report_map(char *path, size_t capacity, size_t bytes) {
    struct ps_report_place place;
    int error = ps_report_place_find(&place, path, capacity);
    if (error != 0) {
        return -error;
    }
    long fd = ps_report_open(&place, O_RDWR | O_TRUNC, S_IRUSR | S_IWUSR);
    ps_report_place_close(&place);
    if (ps_syscall_failed(fd)) {
        return fd;
    }
    long result = ps_syscall6(SYS_fallocate, fd, 0, 0, (long)bytes, 0, 0);
    if (result == -EOPNOTSUPP) {
        result = write_zeroes(fd, bytes);
    }
    if (result == 0) {
        result = ps_syscall6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    }
    (void)ps_file_close((int)fd);
    return result;
}
